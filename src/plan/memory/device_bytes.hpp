// Device memory of a product: upper bounds of what src/cuda allocates. Pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "plan/panels/tile_panels.hpp"
#include "spmm/types.hpp"

namespace spmm::plan {

/// Arrays of an operand sorted by block row; src/cuda allocates them by it.
struct IndexLayout {
  IndexLayout(std::uint64_t num_blocks, std::uint32_t nb)
      : blocks(num_blocks), rows(std::min<std::uint64_t>(num_blocks, nb)) {}

  std::uint64_t blocks;
  std::uint64_t rows;  ///< at most

  /// Row numbers, offsets, columns, each of 32 bits.
  [[nodiscard]] std::uint64_t bytes() const { return 4 * (rows + (rows + 1) + blocks); }
};

/// What the operands take: while panels are computed, and at the peak of the build before that.
struct OperandBytes {
  std::uint64_t resident = 0;
  std::uint64_t build_peak = 0;
};

/// Values: for every layout; the largest of what the kernels ask for. side: of the blocks as kernels read them, m or
/// padded_side(m).
OperandBytes operand_device_bytes(const MatrixHeader& a, const MatrixHeader& b, std::uint32_t side);

/// Chunks of kRingSlotBytes of raw records of a matrix that are parsed together: two sections of each matrix lie where
/// operand_device_bytes counts with a copy of A's elements. Values: a = A's header.
std::uint64_t upload_section_chunks(const MatrixHeader& a);

/// Whether the rows of B that A's blocks meet are found in a table of all block rows; it lies where
/// operand_device_bytes counts with a sort.
bool has_device_row_table(std::uint64_t a_blocks, std::uint32_t nb);

/// Device bytes per C block of a panel besides its packed records: accumulated values, coordinates, flags, scan.
/// Kernels that write records themselves accumulate nothing here; a listed panel keeps the sums of its split lists
/// instead (kSplitKPairs: 8 * m * m / 4096 bytes per pair).
std::uint64_t c_block_bytes(std::uint32_t m);

/// Device bytes per pair of a panel that lists its C blocks by expansion.
inline constexpr std::uint64_t kEscPairBytes = 48;

/// Device bytes per C block of a panel, whatever kernel computes it. Packed records count twice: one copy leaves the
/// device while the next panel is computed.
std::uint64_t panel_c_block_bytes(std::uint32_t m);

/// The same for the dense kernels, which list nothing.
std::uint64_t dense_panel_c_block_bytes(std::uint32_t m);

/// Everything that a panel of tile-tensor takes: its C blocks, packed records, tiles of A and lists.
std::uint64_t tile_panel_bytes(const TileExtent& panel, std::uint32_t m);

}  // namespace spmm::plan
