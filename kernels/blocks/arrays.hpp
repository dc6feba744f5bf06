// The door to arrays.cu: block-CSR arrays of a caller to sort keys, and packed records to such arrays. Stream and
// errors as in every door: launches are asynchronous on the given stream, CudaError from the launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

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
  std::uint32_t padding = 0;
};

/// keys[p] = block row << key_bits | block column of block p, where nothing is bad.
/// Shapes: keys [num_blocks], findings [1], device.
void launch_read_arrays(const ArraysView& arrays, std::uint64_t* keys, ArrayFindings* findings, cudaStream_t stream);

/// *max_element is raised to the largest value. Shapes: values [count], max_element [1], device.
void launch_max_element(const std::uint16_t* values, std::uint64_t count, std::uint32_t* max_element,
                        cudaStream_t stream);

/// out[p] = block number numbers[p] of values, transposed; without numbers block p. *max_element, where given, is
/// raised to the largest value. Shapes: values and out [count, m, m], out 16-byte aligned; max_element [1]; device.
void launch_transpose_blocks(const std::uint16_t* values, const std::uint32_t* numbers, std::uint64_t count,
                             std::uint32_t m, std::uint16_t* out, std::uint32_t* max_element, cudaStream_t stream);

/// The parts of packed records. Shapes: records [num_blocks, 2 + m * m], heads [num_blocks, 2], values
/// [num_blocks, m, m]; num_saturated [1]: raised by the elements that are kMaxVal; all device.
struct UnpackedRecords {
  std::uint32_t* heads = nullptr;
  std::uint32_t* values = nullptr;
  unsigned long long* num_saturated = nullptr;  // or null
};
void launch_unpack_records(const std::uint32_t* records, std::uint64_t num_blocks, std::uint32_t m,
                           const UnpackedRecords& to, cudaStream_t stream);

/// Elements of a result that are kMaxVal, in rows that may have some: those of more than sure_blocks blocks of A.
/// Shapes: heads [num_blocks, 2], values [num_blocks, m, m], num_saturated [1], device.
struct SaturatedRows {
  const void* a_indptr = nullptr;  // [block rows + 1], device, integers of index_bytes
  std::uint32_t index_bytes = 4;
  std::uint64_t sure_blocks = 0;
};
/// *num_saturated is raised by their number.
void launch_count_saturated_rows(const std::uint32_t* heads, const std::uint32_t* values, std::uint64_t num_blocks,
                                 std::uint32_t m, const SaturatedRows& rows, unsigned long long* num_saturated,
                                 cudaStream_t stream);

/// The index arrays of a block-CSR matrix. Shapes: indptr [num_rows + 1], indices [num_blocks], device, integers of
/// index_bytes.
struct IndexArrays {
  void* indptr = nullptr;
  void* indices = nullptr;
  std::uint32_t index_bytes = 4;
  std::uint64_t num_rows = 0;  // block rows
};

/// indices[r] = block column of record r, indptr[i] = records before block row i.
/// Shapes: heads [num_blocks, 2], device: block row, ascending, and block column.
void launch_make_indices(const std::uint32_t* heads, std::uint64_t num_blocks, const IndexArrays& to,
                         cudaStream_t stream);

}  // namespace spmm::kernels
