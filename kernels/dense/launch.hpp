// The door of the dense family C[J, L] = A[J, K] * B[K, L]: declarations without CUDA syntax. All matrices row-major.
// Stream: every launch is asynchronous on the given stream and waits for nothing.
// Errors: CudaError from the launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/views.hpp"

namespace spmm::kernels {

/// Elements of A and B -> elements of C.
enum class DenseType : std::uint8_t {
  i32,  ///< int32 -> int32, sums wrap
  f32,  ///< float -> float
  u16,  ///< uint16 -> uint32, exact sums saturated
};

struct DenseShape {
  std::uint32_t rows = 0;   ///< J
  std::uint32_t inner = 0;  ///< K
  std::uint32_t cols = 0;   ///< L
};

/// A kernel made ready for one type and shape.
struct DenseLaunch {
  const void* function = nullptr;  // __global__ void (DenseShape, const In* a, const In* b, Out* c)
  unsigned num_ctas = 0;
  unsigned threads_x = 0;
  unsigned threads_y = 0;
  std::size_t dynamic_shared_bytes = 0;
};

/// What one CTA takes and how many of them fit on a multiprocessor.
struct DenseResources {
  unsigned threads_per_cta = 0;
  unsigned registers_per_thread = 0;
  std::size_t shared_bytes_per_cta = 0;
  unsigned ctas_per_multiprocessor = 0;
  double occupancy = 0;  ///< resident warps over the most a multiprocessor holds
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

/// 8 x 8 elements of C per thread in registers, three stages of shared memory.
/// Shapes: a, b, c 16-byte aligned.
DenseLaunch dense_register(DenseType type, DenseShape shape);

// ---- launch.cu

/// Runs a prepared kernel.
/// Shapes: a [rows, inner], b [inner, cols], c [rows, cols], device, as the launch was made for.
void launch_dense(const DenseLaunch& launch, DenseShape shape, const void* a, const void* b, void* c,
                  cudaStream_t stream);

/// Asks the current device.
DenseResources dense_resources(const DenseLaunch& launch);

// ---- expand_planes.cu

/// Which blocks are expanded: rows [first_row, first_row + num_rows) of the index.
/// Layout: along_row (A by rows): element row = row of the block, K along the row. Otherwise (B by rows, blocks
/// transposed): element row = column of the block, K across the rows; only blocks in [first_column, end_column).
struct PlaneRange {
  bool along_row = true;
  std::uint32_t first_row = 0;
  std::uint32_t num_rows = 0;
  std::uint32_t first_column = 0;
  std::uint32_t end_column = 0;
};

/// Clears byte planes and writes blocks into them.
void launch_expand_planes(const OperandView& operand, const PlaneRange& range, std::uint32_t m,
                          const BytePlanes& planes, cudaStream_t stream);

// ---- tensor.cu. A tile: 128 x 256 plane rows, what one CTA computes.

/// True if a device of this compute capability can run launch_mul_dense_tensor.
bool has_dense_tensor(int major, int minor);

/// Where a dense product goes: some block columns of a panel of whole block rows. results.non_zero must be cleared;
/// null = not wanted. With m = 1 the result is a plain row-major matrix.
struct DenseTarget {
  std::uint32_t num_rows = 0;     // elements
  std::uint32_t num_columns = 0;  // elements
  std::uint32_t m = 0;
  std::uint32_t first_block_column = 0;  // of the panel: where num_columns begin
  std::uint32_t num_block_columns = 0;   // of the panel
  CBlockResults results;
};

/// Tiles that the prefilter proved saturated, and filled.
struct SaturatedTiles {
  std::uint8_t* done = nullptr;       // [num_prefilter_tiles], device: 1 for each of them; null = no prefilter has run
  std::uint32_t* num_left = nullptr;  // [1], device: tiles that are not
};

/// Tiles of launch_saturation_prefilter. Shapes: rows and columns in elements.
std::uint64_t num_prefilter_tiles(std::uint32_t num_rows, std::uint32_t num_columns);

/// Multiplies the high bytes alone, which bounds the products from below with a quarter of the work, and fills the
/// tiles in which every element is saturated by that.
/// Shapes: a [num_rows elements], b [num_columns elements], of the target; any planes, each with its own shift.
void launch_saturation_prefilter(const BytePlanes& a, const BytePlanes& b, const DenseTarget& target,
                                 const SaturatedTiles& saturated, cudaStream_t stream);

/// Dense product of byte planes on integer tensor cores, K in segments whose sums fit 32 bits. Fills the tiles that are
/// not saturated yet.
/// Shapes: as above; both with two or three planes of the same shift, or one of shift 0.
void launch_mul_dense_tensor(const BytePlanes& a, const BytePlanes& b, const DenseTarget& target,
                             const SaturatedTiles& saturated, cudaStream_t stream);

// ---- karatsuba.cu

/// The same of three planes, with three products of bytes for each multiply-add instead of four (Karatsuba).
void launch_mul_karatsuba(const BytePlanes& a, const BytePlanes& b, const DenseTarget& target,
                          const SaturatedTiles& saturated, cudaStream_t stream);

// ---- block_tiles.cu: block-sparse operands as dense u16

/// A dense u16 matrix, zeros behind its elements.
/// Shapes: data [num_rows, stride].
struct DenseView {
  std::uint16_t* data = nullptr;  // device, 16-byte aligned
  std::uint32_t num_rows = 0;
  std::uint32_t stride = 0;  // elements, a multiple of 4
};

/// Clears the target and writes rows of A into it: m dense rows per block row, K along the row.
/// Shapes: target.num_rows = num_rows * m, target.stride >= nb * m.
void launch_expand_dense_a(const OperandView& a, std::uint32_t first_row, std::uint32_t num_rows, std::uint32_t m,
                           const DenseView& target, cudaStream_t stream);

/// Clears the target and writes block columns [first_column, first_column + num_columns) of B (by rows, blocks
/// transposed) into it: a dense row per element row of B.
/// Shapes: target.num_rows >= nb * m, target.stride >= num_columns * m.
void launch_expand_dense_b(const OperandView& b, std::uint32_t first_column, std::uint32_t num_columns, std::uint32_t m,
                           const DenseView& target, cudaStream_t stream);

/// C blocks of a * b, saturated.
/// Shapes: a [target.num_rows, a.stride], b [a.stride, at least target.num_columns].
void launch_mul_dense_tiled(const DenseView& a, const DenseView& b, const DenseTarget& target, cudaStream_t stream);

}  // namespace spmm::kernels
