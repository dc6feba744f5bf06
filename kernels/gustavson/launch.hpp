// The door to the Gustavson kernel. Declarations without CUDA syntax.
// Stream: every launch is asynchronous on the given stream and waits for nothing.
// Errors: CudaError from the launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/views.hpp"

namespace spmm::kernels {

// ---- gustavson.cu

/// A by rows times B by rows, blocks of B transposed, all padded to padded_side(m); C blocks name block columns.
struct GustavsonProduct {
  OperandView a;
  OperandView b;
  const std::uint32_t* b_row_index = nullptr;  // [nnzb of A], device
  std::uint32_t num_a_blocks = 0;
  std::uint32_t num_b_blocks = 0;
  std::uint32_t m = 0;
  std::uint32_t max_element = 0;  // largest element of both operands: rows whose sums fit 32 bits skip overflow checks
};

/// A CTA per block row and column chunk, sums in shared memory; writes records. Visits every C block of the panel
/// (c_blocks.keys null).
void launch_mul_gustavson(const GustavsonProduct& product, const CBlocksView& c_blocks, const RecordOutput& out,
                          cudaStream_t stream);

/// What is known of products of two blocks: that none is zero, or where the device finds out.
struct ZeroProducts {
  bool are_none = false;
  const std::uint32_t* found = nullptr;  // [1], device: what launch_find_zeros found; null = nothing more is known
};

/// The same. Where no C block with pairs is zero, the CTAs know before they multiply what they will write, and none
/// waits for the results of another.
void launch_mul_gustavson(const GustavsonProduct& product, const CBlocksView& c_blocks, const ZeroProducts& zeros,
                          const RecordOutput& out, cudaStream_t stream);

}  // namespace spmm::kernels
