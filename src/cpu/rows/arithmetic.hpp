// Which arithmetic each block row of C needs: a few large elements cost the rows that meet them, not all.
#pragma once

#include <cstdint>

#include "base/memory/aligned_array.hpp"
#include "base/run/run.hpp"
#include "cpu/operands/operand.hpp"
#include "cpu/rows/rank.hpp"
#include "cpu/simd/kernels.hpp"

namespace spmm::cpu {

struct RowArithmetic {
  Arithmetic common;                        ///< of all rows, if there are no others
  AlignedArray<std::uint32_t> flush_pairs;  ///< [a.num_rows()] narrow arithmetic; 0 = the row is wide
  AlignedArray<std::uint32_t> a_row_sums;   ///< [num_blocks of A, shape.rows], if a row is wide and B lies in row pairs
  std::uint32_t wide_flush_pairs = 1;

  [[nodiscard]] Arithmetic of(std::uint32_t row) const {
    if (flush_pairs.size() == 0) return common;
    const std::uint32_t pairs = flush_pairs[row];
    return {.wide = pairs == 0, .flush_pairs = pairs == 0 ? wide_flush_pairs : pairs};
  }
};

/// A product of sides above 3, shared by all threads.
struct RowProduct {
  const PackedOperand& a;  ///< columns replaced by link_rows
  const PackedOperand& b;
  PackedBlocks operands;
  const RowArithmetic& arithmetic;
  MultiplyCBlocks narrow_kernel;
  MultiplyCBlocks wide_kernel;
  AccumulatorKernel accumulator;  ///< may be empty
  RankKeys rank;
  std::uint32_t blocks_per_side;
};

/// Values: a, b after link_rows(). Errors: Interrupted.
RowArithmetic choose_row_arithmetic(const PackedOperand& a, const PackedOperand& b, const PackedShape& shape,
                                    const Run& run);

}  // namespace spmm::cpu
