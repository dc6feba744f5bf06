// The door to planned.cu: blocks of side 8 whose pattern is known, so that the pairs of each C block are listed.
// Stream and errors as in every door: launches are asynchronous on the given stream, CudaError from the launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/views.hpp"

namespace spmm::kernels {

/// Block side of planned lists.
inline constexpr std::uint32_t kPlannedListSide = 8;

/// The pairs of C block x: [offsets[x], offsets[x + 1]). All device.
struct PlannedList {
  std::uint32_t num_c_blocks = 0;
  const std::uint32_t* offsets = nullptr;  // [num_c_blocks + 1]
  const BlockPair* pairs = nullptr;        // [num_pairs], blocks of the caller
};

/// pairs[p] = blocks of the caller, of which `pairs` names the positions by rows.
/// Shapes: pairs [num_pairs], a_order [nnzb of A], b_order [nnzb of B], device.
void launch_name_planned_pairs(const std::uint32_t* a_order, const std::uint32_t* b_order, std::uint64_t num_pairs,
                               BlockPair* pairs, cudaStream_t stream);

/// C = A * B, saturated. Shapes: a, b [any, 8, 8] row-major, 4-byte aligned; c [num_c_blocks, 8, 8], 8-byte aligned.
void launch_mul_planned_list(const PlannedList& list, const std::uint16_t* a, const std::uint16_t* b, std::uint32_t* c,
                             cudaStream_t stream);

}  // namespace spmm::kernels
