// The door to tile-tensor (tiles/maps.cu, tile_lists.cu, expand_tiles.cu, tile_tensor.cu): block-sparse products
// by non-empty tiles of byte planes. Stream, Errors: as in launch.hpp.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/tiles/grid.hpp"
#include "kernels/views.hpp"

namespace spmm::kernels {

// ---- maps.cu

/// A bit for each tile that is not empty.
struct TileMapsView {
  TileGrid grid;
  std::uint32_t* a = nullptr;         // [row tiles, words along K], device
  std::uint32_t* b = nullptr;         // [column tiles, words along K], device
  std::uint32_t* b_across = nullptr;  // [K tiles, words along columns], device: the same tiles; only for counting
  std::uint32_t* c = nullptr;         // [row tiles, words along columns], device: reached by a product
};

/// Tiles of the operands, and products of two.
struct TileTotals {
  unsigned long long a_tiles = 0;
  unsigned long long b_tiles = 0;
  unsigned long long stages = 0;
};

/// Lines of tiles that are examined to judge whether all should be: rows of A, and tiles along K of B.
inline constexpr std::uint32_t kSampledTileLines = 32;

/// Tiles in kSampledTileLines lines of each operand.
struct TileSample {
  unsigned long long a_tiles = 0;
  unsigned long long b_tiles = 0;
};

/// Counts tiles in some lines. Shapes: sample [1], cleared here; device.
void launch_sample_tiles(const CompressedView& a, const CompressedView& b, const TileGrid& grid, TileSample* sample,
                         cudaStream_t stream);

/// Marks the tiles of A and B. Shapes: a, b and b_across of the maps must be clear.
void launch_mark_tiles(const CompressedView& a, const CompressedView& b, const TileMapsView& maps, cudaStream_t stream);

/// Counts tiles and stages. Shapes: b_per_k [K tiles], rows [row tiles], of which a_tiles and stages are written;
/// totals [1], cleared here; device.
void launch_count_tiles(const TileMapsView& maps, std::uint32_t* b_per_k, TileRowCounts* rows, TileTotals* totals,
                        cudaStream_t stream);

/// Marks the tiles of C, and completes the counts of each row.
void launch_mark_c_tiles(const TileMapsView& maps, TileRowCounts* rows, cudaStream_t stream);

// ---- lists.cu

/// A tile of an operand: its row (or column) of tiles, and where it lies along K.
struct OperandTile {
  std::uint32_t line = 0;
  std::uint32_t k = 0;
};

/// The tiles of an operand, numbered line by line; lines in any order.
struct TileNumbers {
  OperandTile* tiles = nullptr;          // [tiles], device
  std::uint32_t* first_tiles = nullptr;  // [lines], device: number of the first tile of each line
  std::uint32_t* count = nullptr;        // [1], device
};

/// Numbers the tiles of lines [first_line, first_line + num_lines) of a bitmap.
void launch_number_tiles(const std::uint32_t* bits, std::uint32_t words_per_line, std::uint32_t first_line,
                         std::uint32_t num_lines, const TileNumbers& numbers, cudaStream_t stream);

/// Where the C tiles of a row of tiles lie in the panel, by the counts of the rows before.
struct TileRowStart {
  std::uint32_t first_c_tile = 0;
  std::uint32_t first_c_block = 0;
  std::uint32_t c_columns = 0;  // C blocks of a block row
};

/// One C tile: stages, and the C blocks that they add up to.
struct alignas(16) TileTask {
  std::uint32_t first_entry = 0;
  std::uint32_t num_entries = 0;
  std::uint32_t first_c_block = 0;  // of the panel
  std::uint32_t row_stride = 0;     // C blocks from one block row to the next
  std::uint32_t num_rows = 0;       // elements
  std::uint32_t num_columns = 0;    // elements
  std::uint32_t row_tile = 0;
  std::uint32_t column_tile = 0;
};

/// The lists of a panel, in device memory.
struct TileLists {
  TileTask* tasks = nullptr;             // [C tiles]
  TileEntry* entries = nullptr;          // [stages]
  std::uint32_t* num_entries = nullptr;  // [1]
  std::uint32_t* long_tasks = nullptr;   // [kMaxLongLists]: lists of more than long_entries stages, longest first
  std::uint32_t* num_long = nullptr;     // [1]
  std::uint32_t long_entries = 0;
  std::uint64_t* c_block_keys = nullptr;  // [C blocks]: as in CBlocksView
};

/// Row tiles of a panel.
struct TilePanel {
  std::uint32_t first_row_tile = 0;
  std::uint32_t num_row_tiles = 0;
  std::uint32_t num_c_tiles = 0;
  std::uint32_t column_bits = 0;
  const TileRowStart* starts = nullptr;  // [num_row_tiles], device
};

/// Most stages of a list that is not long, in a panel of so many stages: fewer than kMaxLongLists have more. A list of
/// 16 takes 13 us: in whatever order such lists come, CTAs end together.
constexpr std::uint32_t long_tile_entries(std::uint64_t num_stages) {
  const auto entries = static_cast<std::uint32_t>(num_stages / kMaxLongLists + 1);
  return entries < 16 ? 16 : entries;
}

/// Lists the C tiles of a panel, the stages of each and the C blocks. A's tiles are those of the panel.
void launch_list_tile_tasks(const TileMapsView& maps, const TilePanel& panel, const std::uint32_t* first_a_tiles,
                            const std::uint32_t* first_b_tiles, const TileLists& lists, cudaStream_t stream);

// ---- expand.cu

/// Writes the tiles of A (along_row) or B, zeros included.
/// Shapes: tiles [count], bytes [count, kTileBytesA or kTileBytesB], device.
void launch_expand_tiles(const OperandView& operand, const TileGrid& grid, bool along_row, std::uint32_t shift,
                         const OperandTile* tiles, std::uint64_t count, std::uint8_t* bytes, cudaStream_t stream);

// ---- tensor.cu

/// A panel, ready to be multiplied.
struct TileProduct {
  const std::uint8_t* a_tiles = nullptr;  // [tiles of A in the panel, kTileBytesA], device
  const std::uint8_t* b_tiles = nullptr;  // [tiles of B, kTileBytesB], device
  TileLists lists;
  std::uint32_t num_tasks = 0;
  std::uint32_t m = 0;
  std::uint32_t num_planes = 2;
  std::uint32_t shift = 8;
  CBlockResults results;  // flags cleared; C blocks that no list reaches keep their values
};

/// C blocks of a panel on integer tensor cores, for devices with has_dense_tensor().
void launch_mul_tile_tensor(const TileProduct& product, cudaStream_t stream);

}  // namespace spmm::kernels
