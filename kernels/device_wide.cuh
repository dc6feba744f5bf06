// Scans, selections and sorts by the whole device. device_wide/ defines them for the types that are named there, so
// that few files include CUB, whose headers take longer to compile than most kernels.
// Stream, Errors: as in the doors. Workspaces: of the bytes that the function in front of each launch returns.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/views.hpp"

namespace spmm::kernels {

// ---- device_wide/scans.cu

template <class Terms, class Sum>
std::size_t scan_workspace_bytes(std::uint64_t count);

/// sums[x] = terms(0) + ... + terms(x - 1), x < count.
template <class Terms, class Sum>
void launch_scan(const Terms& terms, std::uint64_t count, Sum* sums, Workspace work, cudaStream_t stream,
                 const char* what);

/// What a selection writes. Shapes: device.
struct Selected {
  std::uint32_t* numbers = nullptr;  // [count], ascending
  std::uint32_t* count = nullptr;    // [1]
};

template <class Flags>
std::size_t select_workspace_bytes(std::uint64_t count);

/// The x < count with flags(x).
template <class Flags>
void launch_select(const Flags& flags, std::uint64_t count, Selected selected, Workspace work, cudaStream_t stream,
                   const char* what);

// ---- device_wide/sorts.cu

template <class Value>
std::size_t sort_workspace_bytes(std::uint64_t count);

/// Sorts keys by their lowest bits, and values with them; stable.
template <class Value>
void launch_sort(SortBuffers<std::uint64_t>& keys, SortBuffers<Value>& values, std::uint64_t count, unsigned num_bits,
                 Workspace work, cudaStream_t stream);

}  // namespace spmm::kernels
