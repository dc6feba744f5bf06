// Scans, selections and sorts by the whole device. device_wide/ defines them for the types that are named there, so
// that few files include CUB, whose headers take longer to compile than most kernels.
// Stream, Errors: as in the doors. Workspaces: of the bytes that the function in front of each launch returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/blocks/scan_terms.cuh"
#include "kernels/views.hpp"

namespace spmm::kernels {

// ---- device_wide/scans.cu

/// Sums of what a function object returns for 0, 1, 2, ...
template <class Terms>
struct Scan {
  using Sum = std::invoke_result_t<Terms, std::uint64_t>;
  static std::size_t workspace_bytes(std::uint64_t count);
  /// sums[x] = terms(0) + ... + terms(x - 1), x < count.
  static void launch(const Terms& terms, std::uint64_t count, Sum* sums, Workspace work, cudaStream_t stream,
                     const char* what);
};

std::size_t select_workspace_bytes(std::uint64_t count);

/// Writes the x < count with opens(x) to `selected`, ascending, and how many there are.
/// Shapes: selected [count], num_selected [1], device.
void launch_select(const OpensRow& opens, std::uint64_t count, std::uint32_t* selected, std::uint32_t* num_selected,
                   Workspace work, cudaStream_t stream);

// ---- device_wide/sorts.cu

template <class Value>
std::size_t sort_workspace_bytes(std::uint64_t count);

/// Sorts keys by their lowest bits, and values with them; stable.
template <class Value>
void launch_sort(SortBuffers<std::uint64_t>& keys, SortBuffers<Value>& values, std::uint64_t count, unsigned num_bits,
                 Workspace work, cudaStream_t stream);

}  // namespace spmm::kernels
