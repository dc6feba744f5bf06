// How the tensor-core kernels split elements into bytes and cut a product into tiles, and how they number tiles, bits
// and bytes: pure functions of host and device.
#pragma once

#include <bit>
#include <cstdint>

namespace spmm::kernels {

// ---- byte planes: element = high << shift | low, high < 256, low < 1 << shift
//
//   planes   of a tile               products of bytes
//   1        high                    1; all there is if shift = 0, else a lower bound of the elements
//   2        8 rows of high, 8 rows  4
//            of low bytes in turn
//   3        each plane in tiles of  3 (Karatsuba); the third one has high + low < 255
//            its own

/// Largest element of three planes: high and low part have seven bits each.
inline constexpr std::uint32_t kMaxSummedElement = (1u << 14) - 1;

/// Planes that elements need.
constexpr std::uint32_t num_byte_planes(std::uint32_t max_element) {
  return max_element < 256 ? 1 : 2;
}

/// Planes of dense-tensor where memory allows for them: a third one saves one of four products of bytes.
constexpr std::uint32_t num_dense_planes(std::uint32_t max_element) {
  const std::uint32_t needed = num_byte_planes(max_element);
  return needed == 2 && max_element <= kMaxSummedElement ? 3 : needed;
}

/// Products of bytes that a multiply-add takes.
constexpr std::uint32_t num_byte_products(std::uint32_t num_planes) {
  return num_planes == 2 ? 4 : num_planes;
}

/// Bits of the low part. Three planes: half of those that elements have, nine at least, so that sums stay as small as
/// can be. Otherwise the high byte takes the upper eight.
constexpr std::uint32_t low_plane_bits(std::uint32_t max_element, std::uint32_t num_planes) {
  const auto bits = static_cast<std::uint32_t>(std::bit_width(max_element));
  if (num_planes == 3) return ((bits < 9 ? 9 : bits) + 1) / 2;
  return bits <= 8 ? 0 : bits - 8;
}

// ---- tiles

/// Elements of a tile along K: one stage of the tensor-core kernels.
inline constexpr std::uint32_t kTileDepth = 128;
/// Plane rows of a tile of A and of B; a CTA multiplies one by the other.
inline constexpr std::uint32_t kTileRowsA = 128;
inline constexpr std::uint32_t kTileRowsB = 256;
inline constexpr std::uint64_t kTileBytesA = std::uint64_t{kTileRowsA} * kTileDepth;
inline constexpr std::uint64_t kTileBytesB = std::uint64_t{kTileRowsB} * kTileDepth;

/// Elements per side at most: bitmaps of tiles grow with the square of it, 64 MB each here. Full grids have none.
inline constexpr std::uint64_t kMaxTileSide = std::uint64_t{1} << 21;
inline constexpr std::uint64_t kMaxFullSide = std::uint64_t{1} << 30;

/// Lists of K tiles that are multiplied first, longest first; all others are short compared with the whole.
inline constexpr std::uint32_t kMaxLongLists = 2048;

/// Most stages of a list that is not long, in a panel of num_stages: fewer than kMaxLongLists have more. A list of
/// 16 takes 13 us: in whatever order such lists come, CTAs end together.
constexpr std::uint32_t long_tile_entries(std::uint64_t num_stages) {
  const auto entries = static_cast<std::uint32_t>(num_stages / kMaxLongLists + 1);
  return entries < 16 ? 16 : entries;
}

/// What there is in a row of tiles.
struct TileRowCounts {
  std::uint32_t a_tiles = 0;
  std::uint32_t stages = 0;     // tiles of A times tiles of B that meet: the lists of all C tiles
  std::uint32_t c_tiles = 0;    // that such products reach
  std::uint32_t c_columns = 0;  // block columns of those
  friend bool operator==(const TileRowCounts&, const TileRowCounts&) = default;
};

/// A product in tiles: stored rows of A by block columns of B. K is cut every kTileDepth elements, through blocks if m
/// does not divide that. Rows and columns of a tile are whole blocks, as many as fit; in a full grid, whose tiles are
/// all multiplied, they are cut through blocks, too.
/// Values: 1 <= m <= 64, num_planes 1 to 3; nb * m up to kMaxTileSide, full: kMaxFullSide.
struct TileGrid {
  std::uint32_t m = 0;
  std::uint32_t num_rows = 0;     // stored rows of A
  std::uint32_t nb = 0;           // blocks along K
  std::uint32_t num_columns = 0;  // block columns of B
  std::uint32_t num_planes = 2;
  bool is_full = false;

  /// Sets of tiles, each with one plane: three of three planes.
  [[nodiscard]] constexpr std::uint32_t num_sets() const { return num_planes == 3 ? 3 : 1; }
  [[nodiscard]] constexpr std::uint32_t planes_of_tile() const { return num_planes == 2 ? 2 : 1; }

  /// Elements of a tile of A and of B across K.
  [[nodiscard]] constexpr std::uint32_t row_elements() const { return across(kTileRowsA); }
  [[nodiscard]] constexpr std::uint32_t column_elements() const { return across(kTileRowsB); }

  [[nodiscard]] constexpr std::uint32_t num_row_tiles() const { return tiles(num_rows * m, row_elements()); }
  [[nodiscard]] constexpr std::uint32_t num_column_tiles() const { return tiles(num_columns * m, column_elements()); }
  [[nodiscard]] constexpr std::uint32_t num_k_tiles() const { return tiles(nb * m, kTileDepth); }

  /// Block rows of one tile of A, block columns of one tile of B: the last ones may have fewer. Values: not full.
  [[nodiscard]] constexpr std::uint32_t row_blocks() const { return row_elements() / m; }
  [[nodiscard]] constexpr std::uint32_t column_blocks() const { return column_elements() / m; }
  [[nodiscard]] constexpr std::uint32_t rows_of(std::uint32_t tile) const { return part(num_rows, row_blocks(), tile); }
  [[nodiscard]] constexpr std::uint32_t columns_of(std::uint32_t tile) const {
    return part(num_columns, column_blocks(), tile);
  }

  /// Tiles along K that a block lies in: one or two.
  [[nodiscard]] constexpr std::uint32_t first_k_tile(std::uint32_t block) const { return block * m / kTileDepth; }
  [[nodiscard]] constexpr std::uint32_t last_k_tile(std::uint32_t block) const {
    return (block * m + m - 1) / kTileDepth;
  }
  /// First block with elements in a tile along K, and the block behind the last one.
  [[nodiscard]] constexpr std::uint32_t first_k_block(std::uint32_t tile) const { return tile * kTileDepth / m; }
  [[nodiscard]] constexpr std::uint32_t end_k_block(std::uint32_t tile) const {
    const std::uint32_t end = (tile * kTileDepth + kTileDepth - 1) / m + 1;
    return end < nb ? end : nb;
  }

  /// Words of a line of bits along K, along columns.
  [[nodiscard]] constexpr std::uint32_t k_words() const { return tiles(num_k_tiles(), 32); }
  [[nodiscard]] constexpr std::uint32_t column_words() const { return tiles(num_column_tiles(), 32); }

  /// Words of all bitmaps: A's tiles, B's in both orders, those of C.
  [[nodiscard]] constexpr std::uint64_t a_words() const { return std::uint64_t{num_row_tiles()} * k_words(); }
  [[nodiscard]] constexpr std::uint64_t b_words() const { return std::uint64_t{num_column_tiles()} * k_words(); }
  [[nodiscard]] constexpr std::uint64_t b_across_words() const { return std::uint64_t{num_k_tiles()} * column_words(); }
  [[nodiscard]] constexpr std::uint64_t c_words() const { return std::uint64_t{num_row_tiles()} * column_words(); }

  /// Bytes of all bitmaps, and of the counts made from them.
  [[nodiscard]] constexpr std::uint64_t map_bytes() const {
    return (a_words() + b_words() + b_across_words() + c_words() + num_k_tiles()) * sizeof(std::uint32_t) +
           num_row_tiles() * sizeof(TileRowCounts) + 3 * sizeof(std::uint64_t);
  }

  /// A full grid: tiles of one set, of all operands and of C.
  [[nodiscard]] constexpr std::uint64_t a_tiles() const { return std::uint64_t{num_row_tiles()} * num_k_tiles(); }
  [[nodiscard]] constexpr std::uint64_t b_tiles() const { return std::uint64_t{num_column_tiles()} * num_k_tiles(); }
  [[nodiscard]] constexpr std::uint64_t c_tiles() const { return std::uint64_t{num_row_tiles()} * num_column_tiles(); }

  /// A full grid: bytes of a plane, and planes in memory: high bytes once more, which are multiplied first.
  [[nodiscard]] constexpr std::uint64_t a_plane_bytes() const {
    return kTileBytesA * tiles(num_rows * m, kTileRowsA) * num_k_tiles();
  }
  [[nodiscard]] constexpr std::uint64_t b_plane_bytes() const {
    return kTileBytesB * tiles(num_columns * m, kTileRowsB) * num_k_tiles();
  }
  [[nodiscard]] constexpr std::uint32_t planes_held() const { return num_planes == 1 ? 1 : num_planes + 1; }

  /// The full grid with as many columns of B as fit: all that it has, or whole tiles of a plane; none where not even
  /// these do.
  [[nodiscard]] constexpr TileGrid with_columns_in(std::uint64_t free_bytes) const {
    TileGrid grid = *this;
    if (planes_held() * b_plane_bytes() <= free_bytes) return grid;
    const std::uint64_t fitting = free_bytes / (kTileBytesB * num_k_tiles() * planes_held());
    grid.num_columns = static_cast<std::uint32_t>(fitting * kTileRowsB / m);
    return grid;
  }

 private:
  [[nodiscard]] constexpr std::uint32_t across(std::uint32_t plane_rows) const {
    const std::uint32_t elements = plane_rows / planes_of_tile();
    return is_full ? elements : elements / m * m;
  }
  static constexpr std::uint32_t tiles(std::uint32_t count, std::uint32_t size) {
    return count == 0 ? 0 : (count - 1) / size + 1;
  }
  static constexpr std::uint32_t part(std::uint32_t count, std::uint32_t size, std::uint32_t tile) {
    const std::uint32_t left = count - tile * size;
    return left < size ? left : size;
  }
};

/// Byte of an element in a tile as the tensor cores read it: plane rows of 128 bytes whose 16-byte pieces are permuted
/// by the row (128-byte swizzle).
constexpr std::uint32_t tile_byte(std::uint32_t row, std::uint32_t plane, std::uint32_t k,
                                  std::uint32_t planes_of_tile) {
  const std::uint32_t plane_row = planes_of_tile == 1 ? row : row / 8 * 16 + plane * 8 + row % 8;
  return plane_row * kTileDepth + ((k / 16) ^ (plane_row % 8)) * 16 + k % 16;
}

// ---- lists

/// A tile of an operand: its row (or column) of tiles, and where it lies along K.
struct OperandTile {
  std::uint32_t line = 0;
  std::uint32_t k = 0;
};

/// Where the C tiles of a row of tiles lie in the panel, by the counts of the rows before.
struct TileRowStart {
  std::uint32_t first_c_tile = 0;
  std::uint32_t first_c_block = 0;
  std::uint32_t c_columns = 0;  // C blocks of a block row
};

/// A stage of the kernel: a tile of A and one of B, by their numbers.
struct TileEntry {
  std::uint32_t a = 0;
  std::uint32_t b = 0;
};

/// One C tile: stages, and the C blocks that they add up to.
struct alignas(16) TileTask {
  std::uint32_t first_entry = 0;
  std::uint32_t num_entries = 0;
  std::uint32_t first_c_block = 0;  // of the panel
  std::uint32_t row_stride = 0;     // C blocks from one block row to the next
  std::uint32_t first_row = 0;      // elements, within the first C block
  std::uint32_t end_row = 0;        // elements, from where the first C block begins
  std::uint32_t first_column = 0;   // likewise
  std::uint32_t end_column = 0;
  std::uint32_t row_tile = 0;
  std::uint32_t column_tile = 0;
};

/// Device memory of a panel of lists, or of B's tiles, in one piece: offsets of arrays in bytes.
struct TileLayout {
  std::uint64_t total = 0;

  /// Appends an array; returns its offset.
  constexpr std::uint64_t add(std::uint64_t count, std::uint64_t item_bytes) {
    constexpr std::uint64_t kAlignment = 256;
    const std::uint64_t offset = total;
    total += (count * item_bytes + kAlignment - 1) / kAlignment * kAlignment;
    return offset;
  }
};

/// The tiles of an operand: bytes, numbers, the first number of each line, and their count.
struct OperandTileLayout : TileLayout {
  constexpr OperandTileLayout(std::uint64_t num_tiles, std::uint64_t num_lines, std::uint64_t tile_bytes)
      : bytes(add(num_tiles, tile_bytes)),
        tiles(add(num_tiles, sizeof(OperandTile))),
        first_tiles(add(num_lines, sizeof(std::uint32_t))),
        count(add(1, sizeof(std::uint32_t))) {}

  std::uint64_t bytes;
  std::uint64_t tiles;
  std::uint64_t first_tiles;
  std::uint64_t count;
};

/// The lists of a panel.
struct TileListLayout : TileLayout {
  constexpr TileListLayout(std::uint64_t row_tiles, std::uint64_t c_tiles, std::uint64_t stages)
      : starts(add(row_tiles, sizeof(TileRowStart))),
        tasks(add(c_tiles, sizeof(TileTask))),
        entries(add(stages, sizeof(TileEntry))),
        long_tasks(add(kMaxLongLists, sizeof(std::uint32_t))),
        counts(add(2, sizeof(std::uint32_t))) {}

  std::uint64_t starts;
  std::uint64_t tasks;
  std::uint64_t entries;
  std::uint64_t long_tasks;
  std::uint64_t counts;  // stages, long lists
};

}  // namespace spmm::kernels
