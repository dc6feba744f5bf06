// From counters of pairs per column to C blocks.
#pragma once

#include <cstdint>

#include "cpu/simd/isa.hpp"
#include "cpu/simd/kernels.hpp"

namespace spmm::cpu {

/// Entries past the last C block that a list of columns may overwrite.
inline constexpr std::uint32_t kCBlocksAhead = 16;

struct ColumnLister {
  /// Lists the columns that have pairs, in order, and puts the number of the first pair of each column in the place of
  /// its counter. Returns the number of C blocks.
  /// Shapes: position [num_columns], aligned to 64 bytes: pairs of each column; c_blocks has room for kCBlocksAhead
  /// more than there are.
  std::uint32_t (*list)(std::uint32_t* position, std::uint32_t num_columns, CBlock* c_blocks);

  /// Columns per pair up to which looking at every counter is cheapest.
  std::uint32_t columns_per_pair;
};

ColumnLister portable_lister();
ColumnLister avx512_lister();
ColumnLister choose_lister(Isa isa);

}  // namespace spmm::cpu
