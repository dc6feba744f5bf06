// A block-sparse matrix in memory.
#pragma once

#include <cstdint>
#include <vector>

#include "spmm/types.hpp"

namespace spmm {

/// A matrix as a list of blocks, in any order.
/// Shapes: index [num_blocks], values [num_blocks, m, m] row-major within a block.
template <class T>
struct BlockList {
  std::uint32_t n = 0;            ///< elements of a side, a multiple of m
  std::uint32_t m = 0;            ///< elements of a block's side
  std::vector<BlockIndex> index;  ///< [num_blocks]
  std::vector<T> values;          ///< [num_blocks, m, m]

  /// Header that a file with these blocks has.
  [[nodiscard]] MatrixHeader header() const {
    return {.n = n, .m = m, .num_blocks = static_cast<std::uint32_t>(index.size())};
  }

  /// First element of block `b`.
  [[nodiscard]] const T* block(std::size_t b) const { return values.data() + b * m * m; }

  friend bool operator==(const BlockList&, const BlockList&) = default;
};

/// An operand: u16 elements.
using BlockMatrix = BlockList<std::uint16_t>;

/// A result: saturated u32 elements; multiply() returns it sorted by (i, j) without all-zero blocks.
using ProductMatrix = BlockList<std::uint32_t>;

}  // namespace spmm
