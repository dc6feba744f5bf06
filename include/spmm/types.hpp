// Words shared by every layer: matrix header, block coordinates, record sizes, lists of blocks.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

/// Exact products of block-sparse matrices.
namespace spmm {

/// Largest block side that is accepted.
inline constexpr std::uint32_t kMaxBlockDim = 64;

/// The 12 bytes at the start of every file, and the shape of a matrix.
/// Shapes: n x n elements in blocks of m x m, num_blocks of them stored (the file's k).
struct MatrixHeader {
  std::uint32_t n = 0;           ///< elements of a side, a multiple of m
  std::uint32_t m = 0;           ///< elements of a block's side, 1 to kMaxBlockDim
  std::uint32_t num_blocks = 0;  ///< stored blocks, at most nb * nb

  /// Blocks per side (nb = n / m); 0 for an invalid header with m = 0.
  [[nodiscard]] constexpr std::uint32_t blocks_per_side() const { return m == 0 ? 0 : n / m; }

  friend constexpr bool operator==(const MatrixHeader&, const MatrixHeader&) = default;
};

/// Block row and block column of one block.
struct BlockIndex {
  std::uint32_t i = 0;  ///< block row, below nb
  std::uint32_t j = 0;  ///< block column, below nb

  friend constexpr auto operator<=>(const BlockIndex&, const BlockIndex&) = default;
};

/// Block rows [first, end) of a product.
struct RowRange {
  std::uint32_t first = 0;          ///< at most `end`
  std::uint32_t end = 0xFFFFFFFFu;  ///< behind the last one; 2^32 - 1 = all from `first` on

  /// Whether it has all rows of a matrix with `num_rows` block rows.
  [[nodiscard]] constexpr bool covers(std::uint32_t num_rows) const { return first == 0 && end >= num_rows; }

  friend constexpr bool operator==(const RowRange&, const RowRange&) = default;
};

/// Bytes of the header of a file.
inline constexpr std::uint64_t kHeaderBytes = 12;
/// Bytes of the index in front of the elements of a record.
inline constexpr std::uint64_t kIndexBytes = 8;

/// Bytes of one packed record of T elements: {i u32, j u32, m*m x T}.
template <class T>
constexpr std::uint64_t record_bytes(std::uint32_t m) {
  return kIndexBytes + std::uint64_t{m} * m * sizeof(T);
}

/// Record of an input file (u16 elements).
constexpr std::uint64_t input_record_bytes(std::uint32_t m) {
  return record_bytes<std::uint16_t>(m);
}

/// Record of an output file (u32 elements).
constexpr std::uint64_t output_record_bytes(std::uint32_t m) {
  return record_bytes<std::uint32_t>(m);
}

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
