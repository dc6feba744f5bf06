// The door to the tensor-core kernels: products by tiles of byte planes, of those tiles that are not empty
// (tile-tensor) or of all of them (dense-tensor). Declarations without CUDA syntax. Stream: every launch is
// asynchronous on the given stream and waits for nothing. Errors: CudaError from the launch.
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

/// Marks the tiles of A and B. Shapes: a, b and b_across of the maps must be clear.
void launch_mark_tiles(const CompressedView& a, const CompressedView& b, const TileMapsView& maps, cudaStream_t stream);

/// Counts tiles and stages. Shapes: b_per_k [K tiles], rows [row tiles], of which a_tiles and stages are written;
/// totals [1], cleared here; device.
void launch_count_tiles(const TileMapsView& maps, std::uint32_t* b_per_k, TileRowCounts* rows, TileTotals* totals,
                        cudaStream_t stream);

/// Marks the tiles of C, and completes the counts of each row.
void launch_mark_c_tiles(const TileMapsView& maps, TileRowCounts* rows, cudaStream_t stream);

// ---- lists.cu

/// The tiles of an operand, numbered line by line; lines in any order.
struct TileNumbers {
  OperandTile* tiles = nullptr;          // [tiles], device
  std::uint32_t* first_tiles = nullptr;  // [lines], device: number of the first tile of each line
  std::uint32_t* count = nullptr;        // [1], device
};

/// Numbers the tiles of lines [first_line, first_line + num_lines) of a bitmap.
void launch_number_tiles(const std::uint32_t* bits, std::uint32_t words_per_line, std::uint32_t first_line,
                         std::uint32_t num_lines, const TileNumbers& numbers, cudaStream_t stream);

/// The lists of a panel, in device memory.
struct TileLists {
  TileTask* tasks = nullptr;             // [C tiles]; null: all tiles of a full grid, without lists
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

/// Lists the C tiles of a panel, the stages of each and the C blocks. A's tiles are those of the panel.
void launch_list_tile_tasks(const TileMapsView& maps, const TilePanel& panel, const std::uint32_t* first_a_tiles,
                            const std::uint32_t* first_b_tiles, const TileLists& lists, cudaStream_t stream);

// ---- expand.cu

/// What becomes tiles: all of A (along_row: K lies along the rows of the index) or B (by rows, blocks transposed).
/// A full grid begins with row index `first` of A, or block column `first` of B.
struct TileSource {
  OperandView operand;
  TileGrid grid;
  bool along_row = true;
  std::uint32_t first = 0;
  std::uint32_t shift = 8;  // of the byte planes
};

/// Writes tiles, zeros included. Shapes: tiles [count], or null: all of a full grid, line by line; bytes [sets, count,
/// kTileBytesA or kTileBytesB], device.
void launch_expand_tiles(const TileSource& source, const OperandTile* tiles, std::uint64_t count, std::uint8_t* bytes,
                         cudaStream_t stream);

// ---- tensor.cu, karatsuba.cu

/// True if a device of this compute capability can run the kernels below.
bool has_dense_tensor(int major, int minor);

/// Tiles of a full grid of one plane that its high bytes proved saturated, and that are filled.
struct SaturatedTiles {
  std::uint8_t* done = nullptr;       // [C tiles], device: 1 for each of them; null = high bytes were not multiplied
  std::uint32_t* num_left = nullptr;  // [1], device: tiles that are not
};

/// A panel, ready to be multiplied.
struct TileProduct {
  TileGrid grid;                          // full: of the panel, and of some block columns
  const std::uint8_t* a_tiles = nullptr;  // [sets, tiles of A in the panel, kTileBytesA], device
  const std::uint8_t* b_tiles = nullptr;  // [sets, tiles of B, kTileBytesB], device
  TileLists lists;
  std::uint32_t num_tasks = 0;  // C tiles
  std::uint32_t shift = 8;
  std::uint32_t first_block_column = 0;  // full: of the panel, where the grid begins
  std::uint32_t num_block_columns = 0;   // full: of the panel
  std::uint32_t* next_task = nullptr;    // full: [1], device, scratch
  SaturatedTiles saturated;              // full
  CBlockResults results;                 // flags cleared; C blocks that no list reaches keep their values
};

/// Multiplies the high bytes of a full grid alone, which bounds the products from below with a quarter of the work, and
/// fills the tiles in which every element is saturated by that. Values: num_planes 1, shift > 0.
void launch_mul_high_bytes(const TileProduct& product, cudaStream_t stream);

/// C blocks of a panel on integer tensor cores, but tiles that are saturated already.
void launch_mul_tiles(const TileProduct& product, cudaStream_t stream);

/// C blocks of a panel of three planes, with three products of bytes for each multiply-add instead of four (Karatsuba).
void launch_mul_karatsuba(const TileProduct& product, cudaStream_t stream);

}  // namespace spmm::kernels
