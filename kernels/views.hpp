// Non-owning views of device data; plain structs, passed to kernels by value.
#pragma once

#include <cstddef>
#include <cstdint>

#include "spmm/saturate.hpp"

namespace spmm::kernels {

/// No line holds this number.
inline constexpr std::uint32_t kNoLine = 0xFFFF'FFFFu;

/// A compressed matrix (block-CSR, or block-CSC read by columns) that lists only lines with blocks, so that nothing is
/// proportional to the number of block rows. A line is a block row (CSR) or a block column (CSC).
struct LinesView {
  std::uint32_t num_lines = 0;
  const std::uint32_t* lines = nullptr;    // [num_lines], device: line number, ascending
  const std::uint32_t* offsets = nullptr;  // [num_lines + 1], device: first block of each line
  const std::uint32_t* inner = nullptr;    // [nnzb], device: position within the line, ascending per line
};

/// Operand blocks in the order of a LinesView.
/// Layout: A row-major; B transposed within the block, so that a column is contiguous.
struct OperandView {
  LinesView index;
  const std::uint16_t* values = nullptr;   // [nnzb, m, m], device
  const std::uint32_t* numbers = nullptr;  // [nnzb], device: which of values belongs to each block; null = in order
};

/// The tiles of one panel, in result order. A tile is a pair (slot of a block row of A, slot of a block column of B, or
/// that block column itself where B is kept by rows); a slot counts lines that hold blocks.
struct TilesView {
  std::uint64_t num_tiles = 0;
  const std::uint64_t* keys = nullptr;  // [num_tiles], device: (row slot - row_begin) << column_bits | column slot;
                                        // null = every tile of the panel
  std::uint32_t row_begin = 0;
  std::uint32_t num_rows = 0;
  std::uint32_t column_begin = 0;  // only where keys is null
  std::uint32_t num_columns = 0;
  std::uint32_t column_bits = 0;
};

struct Tile {
  std::uint32_t row = 0;     // slot in A's lines
  std::uint32_t column = 0;  // slot in B's lines, or the block column itself
};

/// Row and column slot of tile number `x`.
SPMM_HOST_DEVICE inline Tile tile_at(const TilesView& tiles, std::uint64_t x) {
  if (tiles.keys == nullptr) {
    return {.row = tiles.row_begin + static_cast<std::uint32_t>(x / tiles.num_columns),
            .column = tiles.column_begin + static_cast<std::uint32_t>(x % tiles.num_columns)};
  }
  const std::uint64_t key = tiles.keys[x];
  return {.row = tiles.row_begin + static_cast<std::uint32_t>(key >> tiles.column_bits),
          .column = static_cast<std::uint32_t>(key & ((std::uint64_t{1} << tiles.column_bits) - 1))};
}

/// One block of A times one block of B, by their positions in the operands.
struct BlockPair {
  std::uint32_t a = 0;
  std::uint32_t b = 0;
};

/// Tiles of one panel with the list of pairs of each.
struct PairListView {
  std::uint64_t num_tiles = 0;
  const std::uint32_t* offsets = nullptr;  // [num_tiles + 1], device
  const BlockPair* pairs = nullptr;        // [offsets[num_tiles]], device
};

/// The tiles of a panel that have more than kLongList pairs, and their sums, which several CTAs add up.
/// Values: a panel of P pairs has at most P / kLongList of them.
struct LongListsView {
  std::uint32_t* tiles = nullptr;  // [P / kLongList], device: tile numbers, ascending; null = no tile has so many pairs
  std::uint32_t* count = nullptr;  // [1], device
  std::uint64_t* sums = nullptr;   // [P / kLongList, m, m], device, exact
};

/// What a multiply kernel fills: one result block per tile.
struct TileResults {
  std::uint32_t* values = nullptr;   // [num_tiles, m, m], device, saturated
  std::uint8_t* non_zero = nullptr;  // [num_tiles], device: 1 where an element is not zero
};

/// Where a kernel puts result blocks that it packs into records {i, j, values} by itself, zero blocks left out.
struct RecordOutput {
  std::uint32_t* records = nullptr;     // [tiles of the panel at most, 2 + m * m], device, 8-byte aligned
  const std::uint32_t* rows = nullptr;  // [lines of A], device: block row of each slot
  std::uint64_t* states = nullptr;      // [1 + tiles of the panel at most], device scratch
  std::uint32_t* num_blocks = nullptr;  // [1]: records written; device, or host memory the device can write
};

/// A dense operand as bytes, K contiguous.
/// Values: element = high << shift | low, high < 256, low < 1 << shift. One plane: high bytes only, which is all where
/// shift = 0, and otherwise bounds the elements from below.
/// Layout: num_rows plane rows (a multiple of 8 * num_planes) of stride_bytes (a multiple of 128). One plane: plane row
/// = element row. Two planes: 8 rows of high bytes, then 8 rows of low bytes of the same 8 element rows.
struct BytePlanes {
  std::uint8_t* data = nullptr;  // [num_rows, stride_bytes], device
  std::uint64_t num_rows = 0;
  std::uint64_t stride_bytes = 0;
  std::uint32_t num_planes = 2;
  std::uint32_t shift = 8;  // 8 at most
};

/// Plane row of an element row; plane 0 = high bytes, 1 = low bytes.
SPMM_HOST_DEVICE inline std::uint64_t plane_row(std::uint64_t row, std::uint32_t plane, std::uint32_t num_planes) {
  return num_planes == 1 ? row : row / 8 * 16 + plane * 8 + row % 8;
}

/// Scratch memory for library calls.
struct Workspace {
  void* data = nullptr;
  std::size_t bytes = 0;
};

/// Arrays that a radix sort moves between; `current` tells where the data is.
template <class T>
struct SortBuffers {
  T* data[2] = {nullptr, nullptr};  // [n] each, device
  int current = 0;

  [[nodiscard]] T* front() const { return data[current]; }
  [[nodiscard]] T* back() const { return data[1 - current]; }
};

}  // namespace spmm::kernels
