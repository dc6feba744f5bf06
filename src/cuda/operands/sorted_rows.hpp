// A parsed operand on the device, sorted by block row.
#pragma once

#include <cstdint>

#include "cuda/device/raii.hpp"
#include "kernels/views.hpp"

namespace spmm::cuda {

/// Owner of a CompressedView.
struct CompressedRows {
  std::uint32_t num_rows = 0;
  DeviceBuffer<std::uint32_t> rows;     // [num_rows]
  DeviceBuffer<std::uint32_t> offsets;  // [num_rows + 1]
  DeviceBuffer<std::uint32_t> columns;  // [nnzb]

  [[nodiscard]] kernels::CompressedView view() const {
    return {.num_rows = num_rows, .rows = rows.data(), .offsets = offsets.data(), .columns = columns.data()};
  }
};

/// A matrix sorted by block row; its elements still lie in file order.
struct SortedRows {
  CompressedRows index;                       // block-CSR
  DeviceBuffer<std::uint64_t> keys;           // [nnzb], sorted; empty if nothing needs them any more
  DeviceBuffer<std::uint32_t> numbers;        // [nnzb], record number of each block
  DeviceBuffer<std::uint16_t> parsed_values;  // [nnzb, m, m], file order
  std::uint32_t max_element = 0;
  bool has_zeros = false;  // as ParsedMatrix has it
  bool in_order = false;   // the file's order is that of the rows
};

}  // namespace spmm::cuda
