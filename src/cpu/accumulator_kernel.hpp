// Kernels that add block products to the sums of a whole range of columns; a file for each instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/isa.hpp"
#include "cpu/kernels.hpp"

namespace spmm::cpu {

/// Sums of one block row of C, for columns [first_col, end_col), in memory. Narrow arithmetic only (kernels.hpp).
/// Shapes: sums [end_col - first_col, m, m], aligned to 64 bytes; the order within a block is the kernel's own.
struct AccumulatorKernel {
  /// Adds a block of A times the blocks of a row of B, up to the first one whose column is not below end_col.
  /// Shapes: a [a_elements]; b [count, b_elements]; cols [count], ascending, none below first_col. Returns how many
  /// blocks of B there were. Values: no sum may leave 32 bits.
  std::uint32_t (*add)(const std::uint16_t* a, const std::uint16_t* b, const std::uint32_t* cols, std::uint32_t count,
                       std::uint32_t first_col, std::uint32_t end_col, std::uint32_t* sums) = nullptr;

  /// Writes the records of the C blocks that are not zero and clears the sums.
  /// Shapes: sums [count, m, m], of columns from first_col on; out has room for count records. Returns the end of what
  /// was written.
  std::byte* (*store)(std::uint32_t row, std::uint32_t first_col, std::uint32_t count, std::uint32_t* sums,
                      std::byte* out) = nullptr;

  explicit operator bool() const { return add != nullptr; }
};

/// Empty where the instruction set has none for this side.
AccumulatorKernel avx2_accumulator(const PackedShape& shape, const Arithmetic& arithmetic);
AccumulatorKernel avx512_vnni_accumulator(const PackedShape& shape, const Arithmetic& arithmetic);
AccumulatorKernel choose_accumulator(Isa isa, const PackedShape& shape, const Arithmetic& arithmetic);

}  // namespace spmm::cpu
