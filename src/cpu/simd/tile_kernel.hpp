// What the kernels for small blocks see and do: sums of a block row of C in an accumulator of tiles.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/simd/isa.hpp"
#include "cpu/simd/layout.hpp"

namespace spmm::cpu {

/// A row of sums, and of elements.
using Lanes = std::uint32_t __attribute__((vector_size(32), may_alias));
using Halves = std::uint16_t __attribute__((vector_size(16), may_alias));

/// Tiles of one row of B that are multiplied by one block of A.
struct TileSegment {
  const std::uint16_t* a;      ///< [m, m]
  const std::uint16_t* b;      ///< [count, shape.values]
  const std::uint32_t* slots;  ///< [count] where their sums lie, before `base` is subtracted
  std::uint32_t count;
};

/// Numbers that may be written past the end of a list.
inline constexpr std::uint32_t kTouchedPadding = 16;

/// An accumulator. Values: between two rows all sums are 0 and all slots are fresh.
struct TileSums {
  std::uint32_t* values;   ///< [num_slots, m, 8]
  std::uint8_t* fresh;     ///< [num_slots] 1 = not touched yet
  std::uint32_t* touched;  ///< [num_slots + kTouchedPadding] slots in the order in which they were touched
  std::uint32_t base = 0;  ///< slot 0 stands for this one
};

/// Adds products, clamped at the largest u32 where `saturates`, and where `lists` lists the slots that it is the first
/// to touch; returns how many are listed now. Values: without `saturates` no sum may pass 2^32 - 1.
using AddSegments = std::uint32_t (*)(const TileSegment* segments, std::uint32_t count, const TileSums& sums,
                                      std::uint32_t num_touched);

/// Slots whose marks are examined together.
inline constexpr std::uint32_t kScannedSlots = 64;

/// Lists the slots [begin, end) that are not fresh, ascending, with `base` added; returns how many.
/// Shapes: sums.fresh is readable up to kScannedSlots past the end.
using ListTouched = std::uint32_t (*)(const TileSums& sums, std::uint32_t begin, std::uint32_t end);

/// Tiles of one row of C that are complete.
struct TileRow {
  const std::uint32_t* tiles;  ///< [count] tile columns, ascending
  std::uint32_t count;
  bool by_number;     ///< the sums of the first one lie in slot 0 and so on; else in slot tile - base
  std::uint32_t row;  ///< block row of C
};

/// Where the sums of tile x of a row lie.
inline std::uint32_t slot_of(const TileRow& row, std::uint32_t x, const TileSums& sums) {
  return row.by_number ? x : row.tiles[x] - sums.base;
}

/// Writes the records of tiles, without all-zero blocks, and clears their sums.
/// Shapes: out has room for tile_blocks(m) records per tile. Returns the end of what was written.
using WriteTiles = std::byte* (*)(const TileRow& row, const TileSums& sums, std::byte* out);

struct TileKernel {
  AddSegments add[2][2] = {};  ///< [saturates][lists]
  ListTouched list = nullptr;
  WriteTiles write = nullptr;
  TileShape shape;
  bool paired = false;  ///< sides 2 and 3: wants the first two rows of a tile of B element by element [8, 2]
};

/// Elements up to which kernels for paired rows are exact: they are signed words to a processor.
inline constexpr std::uint32_t kMaxPairedElement = 0x7FFF;

/// Values: m for which sums_in_tiles(); max_element: no element of A or B is larger.
TileKernel portable_tile_kernel(std::uint32_t m);
TileKernel avx2_tile_kernel(std::uint32_t m);
TileKernel avx512_tile_kernel(std::uint32_t m, std::uint32_t max_element);
TileKernel choose_tile_kernel(Isa isa, std::uint32_t m, std::uint32_t max_element);

}  // namespace spmm::cpu
