// Kernels that add block products to the sums of a whole range of columns; a file for each instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/simd/isa.hpp"
#include "cpu/simd/kernels.hpp"

namespace spmm::cpu {

/// A block of A and the blocks of a row of B that it meets, from column first_col on.
/// Shapes: a [a_elements]; b, ahead [count, b_elements]; cols [count], ascending, none below first_col.
/// Values: ahead = blocks of B that are fetched meanwhile, one for each that is multiplied; any address. a_row_sums
/// [rows] of the block, wide arithmetic only.
struct AddRun {
  const std::uint16_t* a;
  const std::uint16_t* b;
  const std::uint32_t* cols;
  std::uint32_t count;
  const std::uint16_t* ahead;
  const std::uint32_t* a_row_sums;
};

/// Elements of a packed block of A of side 5 to 8, the largest that accumulators take.
inline constexpr std::size_t kAccumulatorElements = 64;

/// Sums of one block row of C, for columns [first_col, end_col), in memory.
/// Shapes: sums [end_col - first_col, sum_elements], aligned to 64 bytes; the order within a block is the kernel's own.
struct AccumulatorKernel {
  std::uint32_t sum_elements = 0;  ///< of a block, with padding
  std::uint32_t sums_bytes = 0;    ///< of a range of columns; more columns make longer runs, fewer stay nearer
  double least_pairs = 0;          ///< of a row for each block column: fewer are faster ordered

  /// Adds the products of a run, up to the first block of B whose column is not below end_col. Returns how many blocks
  /// of B there were.
  using Add = std::uint32_t (*)(const AddRun& run, std::uint32_t first_col, std::uint32_t end_col, std::uint32_t* sums);

  Add add = nullptr;          ///< narrow arithmetic; Values: no sum may leave 32 bits
  Add add_clamped = nullptr;  ///< the same, clamped; Values: no product of two blocks may leave 32 bits
  Add add_wide = nullptr;     ///< wide arithmetic, clamped; null = such rows are faster ordered

  /// Writes the records of the C blocks that are not zero and clears the sums.
  /// Shapes: sums [count, sum_elements], of columns from first_col on; out has room for count records. Returns the end
  /// of what was written.
  std::byte* (*store)(std::uint32_t row, std::uint32_t first_col, std::uint32_t count, std::uint32_t* sums,
                      std::byte* out) = nullptr;

  explicit operator bool() const { return add != nullptr; }
};

/// Sums of a range of columns stay in the first-level cache or near it. Those of side 4 take a line each, and a row of
/// B is soon at its end: P2 with 32, 64 and 128 KB, multiply 0.81, 0.75 and 0.74 of before; P1 (side 8) with 32 and 64
/// KB 0.82 and 0.87.
inline constexpr std::uint32_t kSumsBytes = 32u << 10;
inline constexpr std::uint32_t kSide4SumsBytes = 128u << 10;

/// Empty where the instruction set has none for this side.
AccumulatorKernel avx2_accumulator(const PackedShape& shape);
AccumulatorKernel avx512_vnni_accumulator(const PackedShape& shape);
AccumulatorKernel choose_accumulator(Isa isa, const PackedShape& shape);

}  // namespace spmm::cpu
