// The door to arrays.cu and gather.cu: block-CSR arrays of a caller to sort keys, and heads of records to index arrays;
// many matrices to one whose diagonal they are, and the result's numbers back. Stream and errors as in every door:
// launches are asynchronous on the given stream, CudaError from the launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/views.hpp"

namespace spmm::kernels {

/// What reading the arrays of a matrix finds; kNothingBad before.
struct ArrayFindings {
  static constexpr unsigned long long kNothingBad = ~0ull;
  unsigned long long bad_row = kNothingBad;    // first block row whose ends in indptr fall, or lie outside
  unsigned long long bad_index = kNothingBad;  // first position in indices of a block column out of range
  std::uint32_t max_element = 0;
  std::uint32_t is_unsorted = 0;  // 1 if the block columns of a row do not ascend
  std::uint32_t has_zeros = 0;    // 1 if a block of A has a column of zeros, or one of B has nothing else
  std::uint32_t padding = 0;
};

/// Someone else's block-CSR arrays, of which nothing is known yet, and where their keys and findings go.
/// Shapes: indptr [num_rows + 1], indices [num_blocks], integers of index_bytes (4 or 8); values [num_blocks, m, m] or
/// null, keys [num_blocks], findings [1]; device.
struct ArraysView {
  const void* indptr = nullptr;
  const void* indices = nullptr;
  const std::uint16_t* values = nullptr;
  std::uint32_t index_bytes = 4;
  std::uint64_t num_rows = 0;     // block rows
  std::uint64_t num_columns = 0;  // block columns
  std::uint64_t num_blocks = 0;
  unsigned key_bits = 0;
  std::uint64_t* keys = nullptr;
  ArrayFindings* findings = nullptr;
};

/// keys[p] = block row << key_bits | block column of block p, where nothing is bad. Findings: all but max_element.
/// Where neither matrix has zeros, no product of two blocks is zero. Values: both have the same index_bytes.
void launch_read_arrays(const ArraysView& a, const ArraysView& b, std::uint32_t m, cudaStream_t stream);

/// *max_element is raised to the largest value. Shapes: values [count], max_element [1], device.
void launch_max_element(const std::uint16_t* values, std::uint64_t count, std::uint32_t* max_element,
                        cudaStream_t stream);

/// out[p] = block number numbers[p] of values, transposed; without numbers block p. *max_element is raised to the
/// largest value, if it is not null. Shapes: values and out [count, m, m], out 16-byte aligned; device.
void launch_transpose_blocks(const BlocksView& values, const std::uint32_t* numbers, std::uint32_t m,
                             std::uint16_t* out, std::uint32_t* max_element, cudaStream_t stream);

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

// ---- gather.cu

/// One of many matrices, and what lies before it in all of them. Shapes: as DeviceBsrView.
struct GatherItem {
  const void* indptr = nullptr;
  const void* indices = nullptr;
  const std::byte* values = nullptr;
  std::uint32_t first_row = 0;     // block rows before
  std::uint32_t first_column = 0;  // block columns before
  std::uint32_t first_block = 0;   // blocks before
  std::uint32_t padding = 0;
};

/// From one matrix of a stack to the next.
struct GatherStep {
  std::uint64_t indptr_bytes = 0;
  std::uint64_t indices_bytes = 0;
  std::uint64_t values_bytes = 0;
  std::uint32_t rows = 0;     // block rows of each, not 0
  std::uint32_t columns = 0;  // block columns
  std::uint32_t blocks = 0;
};

/// Matrices of the same m, index_bytes and type of elements: a table, or a stack, which has none.
/// Shapes: items [num_items + 1], device; the last one has the sums alone; null: a stack.
struct GatherTable {
  const GatherItem* items = nullptr;
  GatherItem first{};  // of a stack
  GatherStep step{};   // of a stack
  std::uint64_t num_items = 0;
  std::uint64_t num_rows = 0;    // block rows of all
  std::uint64_t num_blocks = 0;  // of all
  std::uint32_t m = 1;
  std::uint32_t index_bytes = 4;
  std::uint32_t element_bytes = 2;
};

/// Arrays of the one matrix. Shapes: indptr [num_rows + 1], indices [num_blocks], values [num_blocks, m, m], device,
/// 16-byte aligned.
struct GatheredArrays {
  void* indptr = nullptr;
  void* indices = nullptr;
  std::byte* values = nullptr;
};

/// Copies all matrices to the diagonal of one. Each is checked against its own shape; findings count rows and blocks of
/// all. Where something is bad, the arrays hold numbers in range.
/// Shapes: findings [1], device.
void launch_gather(const GatherTable& from, const GatheredArrays& to, ArrayFindings* findings, cudaStream_t stream);

/// Products of the one matrix as products of their own. Shapes: indptr [num_rows + 1], indices [indptr[num_rows]],
/// indptrs [num_rows + num_items], first_block [num_items + 1], device, integers of index_bytes.
struct LocalNumbers {
  const void* indptr = nullptr;
  void* indices = nullptr;      // lose the block columns before their product
  void* indptrs = nullptr;      // each product's own indptr, one behind the other
  void* first_block = nullptr;  // blocks before each product
};
/// Values: a, b = the tables of both operands; each item has at least one block row.
void launch_number_locally(const GatherTable& a, const GatherTable& b, const LocalNumbers& numbers,
                           cudaStream_t stream);

}  // namespace spmm::kernels
