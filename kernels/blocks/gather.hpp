// The door to gather.cu: many block-CSR matrices to one whose diagonal they are, and the result's numbers back. Stream
// and errors as in every door: launches are asynchronous on the given stream, CudaError from the launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/blocks/arrays.hpp"

namespace spmm::kernels {

/// One of many matrices, and what lies before it in all of them. Shapes: as DeviceBsrView.
struct GatherItem {
  const void* indptr = nullptr;
  const void* indices = nullptr;
  const std::uint16_t* values = nullptr;
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

/// Matrices of the same m and index_bytes: a table, or a stack, which has none.
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
};

/// Arrays of the one matrix. Shapes: indptr [num_rows + 1], indices [num_blocks], values [num_blocks, m, m], device,
/// 16-byte aligned.
struct GatheredArrays {
  void* indptr = nullptr;
  void* indices = nullptr;
  std::uint16_t* values = nullptr;
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
