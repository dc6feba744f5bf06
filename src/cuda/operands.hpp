// Parsed matrices -> block-CSR of A, block-CSC of B, and who meets whom.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/raii.hpp"
#include "cuda/upload.hpp"
#include "kernels/launch.hpp"

namespace spmm::cuda {

/// Owner of a LinesView.
struct Lines {
  std::uint32_t num_lines = 0;
  DeviceBuffer<std::uint32_t> lines;    // [num_lines]
  DeviceBuffer<std::uint32_t> offsets;  // [num_lines + 1]
  DeviceBuffer<std::uint32_t> inner;    // [nnzb]

  [[nodiscard]] kernels::LinesView view() const {
    return {.num_lines = num_lines, .lines = lines.data(), .offsets = offsets.data(), .inner = inner.data()};
  }
};

/// Owner of an OperandView.
struct Operand {
  Lines index;
  DeviceBuffer<std::uint16_t> values;  // [nnzb, m, m]

  [[nodiscard]] kernels::OperandView view() const { return {.index = index.view(), .values = values.data()}; }
};

/// Both operands, ready to multiply.
struct Operands {
  Operand a;                                    // block-CSR
  Operand b;                                    // block-CSC, blocks transposed
  Lines b_rows;                                 // block-CSR of B without values; inner holds column slots
  DeviceBuffer<std::uint32_t> b_row_slots;      // [nnzb of A]: line of b_rows that a block of A meets
  DeviceBuffer<std::uint64_t> pair_offsets;     // [nnzb of A + 1]
  std::vector<std::uint64_t> row_pair_offsets;  // [lines of A + 1], host

  [[nodiscard]] std::uint64_t num_pairs() const { return row_pair_offsets.back(); }
  [[nodiscard]] kernels::ExpandView expand_view() const {
    return {.a = a.index.view(),
            .b_rows = b_rows.view(),
            .b_row_slots = b_row_slots.data(),
            .pair_offsets = pair_offsets.data()};
  }
};

/// Sorts and compresses both matrices (stage build). Waits for the stream. `parsed` is consumed to save memory.
/// Errors: FormatError (two records hold the same block), OutOfMemory.
Operands build_operands(ParsedPair parsed, const Source& a, const Source& b, DeviceMemory& memory,
                        const Stream& stream);

/// Counts pairs per line of A (stage count). Waits for the stream.
void count_pairs(Operands& operands, DeviceMemory& memory, const Stream& stream);

}  // namespace spmm::cuda
