// The door of the dense kernels of textbooks, C[J, L] = A[J, K] * B[K, L]: declarations without CUDA syntax. All
// matrices row-major.
// Stream: every launch is asynchronous on the given stream and waits for nothing.
// Errors: CudaError from the launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/dense/layout.hpp"
#include "kernels/views.hpp"

namespace spmm::kernels {

/// A kernel made ready for one type and shape.
struct DenseLaunch {
  const void* function = nullptr;  // __global__ void (DenseShape, const In* a, const In* b, Out* c)
  unsigned num_ctas = 0;
  unsigned threads_x = 0;
  unsigned threads_y = 0;
};

// ---- global.cu

/// One thread per element of C, operands from global memory.
/// Values: tile 8, 16 or 32, CTA of tile x tile threads.
DenseLaunch dense_global(DenseType type, DenseShape shape, unsigned tile);

// ---- tiled.cu

/// Tiles of tile x tile elements in shared memory, one element of C per thread.
/// Values: tile 8, 16 or 32.
DenseLaunch dense_tiled(DenseType type, DenseShape shape, unsigned tile);

/// The same tile of A against two neighbouring tiles of B: two elements of C per thread.
DenseLaunch dense_tiled_two(DenseType type, DenseShape shape, unsigned tile);

// ---- register.cu

/// 8 x 8 elements of C per thread in registers, two stages of shared memory.
/// Shapes: a, b, c 16-byte aligned.
DenseLaunch dense_register(DenseType type, DenseShape shape);

// ---- launch.cu

/// Runs a prepared kernel.
/// Shapes: a [rows, inner], b [inner, cols], c [rows, cols], device, as the launch was made for.
void launch_dense(const DenseLaunch& launch, DenseShape shape, const void* a, const void* b, void* c,
                  cudaStream_t stream);

/// Asks the current device.
DenseResources dense_resources(const DenseLaunch& launch);

// ---- expand.cu: block-sparse operands as dense u16

/// A dense u16 matrix, zeros behind its elements.
/// Shapes: data [num_rows, stride].
struct DenseView {
  std::uint16_t* data = nullptr;  // device, 16-byte aligned
  std::uint32_t num_rows = 0;
  std::uint32_t stride = 0;  // elements, a multiple of 4
};

/// Blocks of an operand: rows of the index by block columns.
struct DenseRange {
  std::uint32_t first_row = 0;
  std::uint32_t num_rows = 0;
  std::uint32_t first_column = 0;
  std::uint32_t end_column = 0;
};

/// Clears the target and writes blocks into it. A: its row of the index gives a block's rows. B (transposed): its block
/// row does.
/// Shapes: target has all rows of the range (B: of the matrix) and all of its columns.
void launch_expand_dense(const OperandView& operand, bool transposed, const DenseRange& range, std::uint32_t m,
                         const DenseView& target, cudaStream_t stream);

// ---- register.cu: dense-tiled

/// Where a dense product goes: some block columns of a panel of whole block rows. Flags must be cleared.
struct DenseTarget {
  std::uint32_t num_rows = 0;     // elements
  std::uint32_t num_columns = 0;  // elements
  std::uint32_t m = 0;
  std::uint32_t first_block_column = 0;  // of the panel: where num_columns begin
  std::uint32_t num_block_columns = 0;   // of the panel
  CBlockResults results;
};

/// C blocks of a * b, saturated.
/// Shapes: a [target.num_rows, a.stride], b [a.stride, at least target.num_columns].
void launch_mul_dense_tiled(const DenseView& a, const DenseView& b, const DenseTarget& target, cudaStream_t stream);

}  // namespace spmm::kernels
