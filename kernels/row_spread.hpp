// A second door to the Gustavson kernel (sparse/gustavson.cu), for operands whose zeros have been looked for. Stream,
// Errors: as in launch.hpp.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/launch.hpp"

namespace spmm::kernels {

/// As the one in launch.hpp. Where no C block with pairs is zero, the CTAs know before they multiply what they will
/// write, and none waits for the results of another.
/// Shapes: can_be_zero [1], device: what launch_find_zeros found; null = not known.
void launch_mul_gustavson(const GustavsonProduct& product, const CBlocksView& c_blocks,
                          const std::uint32_t* can_be_zero, const RecordOutput& out, cudaStream_t stream);

}  // namespace spmm::kernels
