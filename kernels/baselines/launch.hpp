// The door to the baselines: products of listed or merged pairs by the plainest means. Declarations without CUDA
// syntax. Stream: every launch is asynchronous on the given stream and waits for nothing. Errors: CudaError from the
// launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/views.hpp"

namespace spmm::kernels {

/// One CTA per C block: merges its two sorted lists and multiplies matching blocks. Shapes: operands of side m, in
/// order.
void launch_mul_two_pointer(const OperandView& a, const OperandView& b, const CBlocksView& c_blocks, std::uint32_t m,
                            const CBlockResults& results, cudaStream_t stream);

/// One CTA per C block: searches each block of A's row in B's column.
void launch_mul_binary_search(const OperandView& a, const OperandView& b, const CBlocksView& c_blocks, std::uint32_t m,
                              const CBlockResults& results, cudaStream_t stream);

/// All pairs of one C block.
struct HostPairs {
  const BlockPair* pairs = nullptr;  // [num_pairs], readable by the device
  std::uint32_t num_pairs = 0;
  std::uint64_t c_block = 0;
};

/// One CTA, one C block: multiplies the given pairs.
void launch_mul_host_pairs(const OperandView& a, const OperandView& b, const HostPairs& list, std::uint32_t m,
                           const CBlockResults& results, cudaStream_t stream);

}  // namespace spmm::kernels
