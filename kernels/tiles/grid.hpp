// How tile-tensor cuts a product into tiles, and how it numbers tiles and their bits: pure functions of host and
// device.
#pragma once

#include <bit>
#include <cstdint>

#include "spmm/saturate.hpp"

namespace spmm::kernels {

/// Elements of a tile along K: one stage of the tensor-core kernel.
inline constexpr std::uint32_t kTileDepth = 128;
/// Plane rows of a tile of A and of B; a CTA multiplies one by the other.
inline constexpr std::uint32_t kTileRowsA = 128;
inline constexpr std::uint32_t kTileRowsB = 256;
inline constexpr std::uint64_t kTileBytesA = std::uint64_t{kTileRowsA} * kTileDepth;
inline constexpr std::uint64_t kTileBytesB = std::uint64_t{kTileRowsB} * kTileDepth;

/// Elements per side at most: bitmaps of tiles grow with the square of it, 64 MB each here.
inline constexpr std::uint64_t kMaxTileSide = std::uint64_t{1} << 21;

/// Lists of K tiles that are multiplied first, longest first; all others are short compared with the whole.
inline constexpr std::uint32_t kMaxLongLists = 2048;

/// The product of A's stored rows and all block columns of B in tiles. Rows and columns of a tile are whole blocks, as
/// many as fit; K is cut every kTileDepth elements, through blocks if m does not divide that.
/// Values: 1 <= m <= 64, num_planes 1 or 2.
struct TileGrid {
  std::uint32_t m = 0;
  std::uint32_t num_rows = 0;  // stored rows of A
  std::uint32_t nb = 0;        // blocks along K, block columns of B
  std::uint32_t num_planes = 2;

  /// Block rows of a tile of A, block columns of a tile of B.
  [[nodiscard]] constexpr std::uint32_t row_blocks() const { return kTileRowsA / num_planes / m; }
  [[nodiscard]] constexpr std::uint32_t column_blocks() const { return kTileRowsB / num_planes / m; }

  [[nodiscard]] constexpr std::uint32_t num_row_tiles() const { return tiles(num_rows, row_blocks()); }
  [[nodiscard]] constexpr std::uint32_t num_column_tiles() const { return tiles(nb, column_blocks()); }
  [[nodiscard]] constexpr std::uint32_t num_k_tiles() const { return nb == 0 ? 0 : last_k_tile(nb - 1) + 1; }

  /// Block rows of one tile of A, block columns of one tile of B: the last ones may have fewer.
  [[nodiscard]] constexpr std::uint32_t rows_of(std::uint32_t tile) const { return part(num_rows, row_blocks(), tile); }
  [[nodiscard]] constexpr std::uint32_t columns_of(std::uint32_t tile) const { return part(nb, column_blocks(), tile); }

  /// Tiles along K that a block lies in: one or two.
  [[nodiscard]] constexpr std::uint32_t first_k_tile(std::uint32_t block) const {
    return static_cast<std::uint32_t>(std::uint64_t{block} * m / kTileDepth);
  }
  [[nodiscard]] constexpr std::uint32_t last_k_tile(std::uint32_t block) const {
    return static_cast<std::uint32_t>((std::uint64_t{block} * m + m - 1) / kTileDepth);
  }
  /// First block with elements in a tile along K, and the block behind the last one.
  [[nodiscard]] constexpr std::uint32_t first_k_block(std::uint32_t tile) const {
    return static_cast<std::uint32_t>(std::uint64_t{tile} * kTileDepth / m);
  }
  [[nodiscard]] constexpr std::uint32_t end_k_block(std::uint32_t tile) const {
    const std::uint64_t end = (std::uint64_t{tile} * kTileDepth + kTileDepth - 1) / m + 1;
    return end < nb ? static_cast<std::uint32_t>(end) : nb;
  }

  /// Words of a line of bits along K, along columns.
  [[nodiscard]] constexpr std::uint32_t k_words() const { return tiles(num_k_tiles(), 32); }
  [[nodiscard]] constexpr std::uint32_t column_words() const { return tiles(num_column_tiles(), 32); }

  /// Words of all bitmaps: A's tiles, B's in both orders, those of C.
  [[nodiscard]] constexpr std::uint64_t a_words() const { return std::uint64_t{num_row_tiles()} * k_words(); }
  [[nodiscard]] constexpr std::uint64_t b_words() const { return std::uint64_t{num_column_tiles()} * k_words(); }
  [[nodiscard]] constexpr std::uint64_t b_across_words() const { return std::uint64_t{num_k_tiles()} * column_words(); }
  [[nodiscard]] constexpr std::uint64_t c_words() const { return std::uint64_t{num_row_tiles()} * column_words(); }

 private:
  static constexpr std::uint32_t tiles(std::uint32_t count, std::uint32_t size) {
    return count == 0 ? 0 : (count - 1) / size + 1;
  }
  static constexpr std::uint32_t part(std::uint32_t count, std::uint32_t size, std::uint32_t tile) {
    const std::uint32_t left = count - tile * size;
    return left < size ? left : size;
  }
};

/// What there is in a row of tiles.
struct TileRowCounts {
  std::uint32_t a_tiles = 0;
  std::uint32_t stages = 0;     // tiles of A times tiles of B that meet: the lists of all C tiles
  std::uint32_t c_tiles = 0;    // that such products reach
  std::uint32_t c_columns = 0;  // block columns of those
  friend bool operator==(const TileRowCounts&, const TileRowCounts&) = default;
};

/// A stage of the kernel: a tile of A and one of B, by their numbers.
struct TileEntry {
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  friend bool operator==(const TileEntry&, const TileEntry&) = default;
};

/// Byte of an element in a tile as the tensor cores read it: plane rows of 128 bytes whose 16-byte pieces are permuted
/// by the row (128-byte swizzle). Two planes: 8 rows of high bytes, 8 rows of low bytes of the same elements.
constexpr std::uint32_t tile_byte(std::uint32_t row, std::uint32_t plane, std::uint32_t k, std::uint32_t num_planes) {
  const std::uint32_t plane_row = num_planes == 1 ? row : row / 8 * 16 + plane * 8 + row % 8;
  return plane_row * kTileDepth + ((k / 16) ^ (plane_row % 8)) * 16 + k % 16;
}

/// Bits that are set.
SPMM_HOST_DEVICE inline std::uint32_t count_bits(std::uint32_t word) {
#ifdef __CUDA_ARCH__
  return static_cast<std::uint32_t>(__popc(word));
#else
  return static_cast<std::uint32_t>(std::popcount(word));
#endif
}

/// Number of the lowest bit that is set. Values: word != 0.
SPMM_HOST_DEVICE inline std::uint32_t lowest_bit(std::uint32_t word) {
#ifdef __CUDA_ARCH__
  return static_cast<std::uint32_t>(__ffs(static_cast<int>(word))) - 1;
#else
  return static_cast<std::uint32_t>(std::countr_zero(word));
#endif
}

/// Bits that are set below bit x.
SPMM_HOST_DEVICE inline std::uint32_t count_bits_below(std::uint32_t word, std::uint32_t x) {
  return count_bits(word & ((1u << x) - 1));
}

/// The stages of one word of a row of A and a column of B, in the order of K: where both have a tile. before: numbers
/// of the tiles that the word begins with. Returns how many were written.
SPMM_HOST_DEVICE inline std::uint32_t list_common_tiles(std::uint32_t a_word, std::uint32_t b_word, TileEntry before,
                                                        TileEntry* entries) {
  std::uint32_t count = 0;
  for (std::uint32_t common = a_word & b_word; common != 0; common &= common - 1) {
    const std::uint32_t x = lowest_bit(common);
    entries[count++] = {.a = before.a + count_bits_below(a_word, x), .b = before.b + count_bits_below(b_word, x)};
  }
  return count;
}

}  // namespace spmm::kernels
