// The door to arrays.cu: block-CSR arrays of a caller to sort keys, and packed records to such arrays. Stream and
// errors as in every door: launches are asynchronous on the given stream, CudaError from the launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/views.hpp"

namespace spmm::kernels {

/// Someone else's block-CSR arrays. Shapes: indptr [num_rows + 1], indices [num_blocks], device, integers of
/// index_bytes (4 or 8). Nothing is known of their values yet.
struct ArraysView {
  const void* indptr = nullptr;
  const void* indices = nullptr;
  std::uint32_t index_bytes = 4;
  std::uint64_t num_rows = 0;     // block rows
  std::uint64_t num_columns = 0;  // block columns
  std::uint64_t num_blocks = 0;
  unsigned key_bits = 0;
};

/// What reading the arrays finds; kNothingBad before.
struct ArrayFindings {
  static constexpr unsigned long long kNothingBad = ~0ull;
  unsigned long long bad_row = kNothingBad;    // first block row whose ends in indptr fall, or lie outside
  unsigned long long bad_index = kNothingBad;  // first position in indices of a block column out of range
  std::uint32_t max_element = 0;
  std::uint32_t is_unsorted = 0;  // 1 if the block columns of a row do not ascend
  std::uint32_t has_zeros = 0;    // 1 if a block of A has a column of zeros, or one of B has nothing else
  std::uint32_t padding = 0;
};

/// keys[p] = block row << key_bits | block column of block p, where nothing is bad.
/// Shapes: keys [num_blocks], findings [1], device.
void launch_read_arrays(const ArraysView& arrays, std::uint64_t* keys, ArrayFindings* findings, cudaStream_t stream);

/// Where launches note what they see of elements; null: nowhere. Shapes: [1], device.
struct ElementFindings {
  std::uint32_t* max_element = nullptr;  // raised to the largest value
  std::uint32_t* has_zeros = nullptr;    // set to 1 as ArrayFindings has it
};

/// Block sides for which launches find zeros.
constexpr bool finds_zeros(std::uint32_t m) {
  return m == 4 || m == 8;
}

/// Looks at the blocks of A. Shapes: values [num_blocks, m, m], 16-byte aligned, device. Values: finds_zeros(m).
void launch_look_at_blocks(const std::uint16_t* values, std::uint64_t num_blocks, std::uint32_t m,
                           const ElementFindings& findings, cudaStream_t stream);

/// *max_element is raised to the largest value. Shapes: values [count], max_element [1], device.
void launch_max_element(const std::uint16_t* values, std::uint64_t count, std::uint32_t* max_element,
                        cudaStream_t stream);

/// out[p] = block number numbers[p] of values, transposed; without numbers block p. Findings: of blocks of B, has_zeros
/// only if finds_zeros(m). Shapes: values and out [count, m, m], out 16-byte aligned; device.
void launch_transpose_blocks(const BlocksView& values, const std::uint32_t* numbers, std::uint32_t m,
                             std::uint16_t* out, const ElementFindings& findings, cudaStream_t stream);

/// The parts of packed records. Shapes: records [num_blocks, 2 + m * m], heads [num_blocks, 2], values
/// [num_blocks, m, m]; num_saturated [1]: raised by the elements that are kMaxVal; all device.
struct UnpackedRecords {
  std::uint32_t* heads = nullptr;
  std::uint32_t* values = nullptr;
  unsigned long long* num_saturated = nullptr;  // or null
};
void launch_unpack_records(const std::uint32_t* records, std::uint64_t num_blocks, std::uint32_t m,
                           const UnpackedRecords& to, cudaStream_t stream);

/// The index arrays of a block-CSR matrix. Shapes: indptr [num_rows + 1], indices [num_blocks], device, integers of
/// index_bytes.
struct IndexArrays {
  void* indptr = nullptr;
  void* indices = nullptr;
  std::uint32_t index_bytes = 4;
  std::uint64_t num_rows = 0;  // block rows
};

/// Elements of a result that are kMaxVal, in rows that may have some: those of more than sure_blocks blocks of A.
struct SaturatedRows {
  unsigned long long* num_saturated = nullptr;  // [1], device: raised by their number; null: not counted
  const std::uint32_t* values = nullptr;        // [blocks of C, elements], device
  std::uint32_t elements = 0;                   // of a block
  const void* a_indptr = nullptr;  // [block rows + 1], device, as IndexArrays has it; null: every row counts
  std::uint64_t sure_blocks = 0;
};

/// indices[r] = block column of record r, indptr[i] = records before block row i.
/// Shapes: heads [num_blocks, 2], device: block row, ascending, and block column.
void launch_make_indices(const std::uint32_t* heads, std::uint64_t num_blocks, const IndexArrays& to,
                         const SaturatedRows& saturated, cudaStream_t stream);

}  // namespace spmm::kernels
