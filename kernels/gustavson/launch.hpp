// A second door to the Gustavson kernel (gustavson/gustavson.cu), for operands whose zeros have been looked for.
// Stream, Errors: as in launch.hpp.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/blocks/launch.hpp"

namespace spmm::kernels {

/// What is known of products of two blocks: that none is zero, or where the device finds out.
struct ZeroProducts {
  bool are_none = false;
  const std::uint32_t* found = nullptr;  // [1], device: what launch_find_zeros found; null = nothing more is known
};

/// As the one in launch.hpp. Where no C block with pairs is zero, the CTAs know before they multiply what they will
/// write, and none waits for the results of another.
void launch_mul_gustavson(const GustavsonProduct& product, const CBlocksView& c_blocks, const ZeroProducts& zeros,
                          const RecordOutput& out, cudaStream_t stream);

}  // namespace spmm::kernels
