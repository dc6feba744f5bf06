// Both operands on the device: uploaded, sorted by row, counted, and brought into the layout that a kernel reads.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/records/head.hpp"
#include "cuda/device/raii.hpp"
#include "cuda/device/stage_events.hpp"
#include "kernels/blocks/launch.hpp"
#include "kernels/rows/launch.hpp"
#include "kernels/tiles/launch.hpp"
#include "kernels/views.hpp"
#include "plan/choice.hpp"
#include "plan/need.hpp"
#include "spmm/stream.hpp"

namespace spmm::cuda {

/// Owner of a CompressedView.
struct CompressedRows {
  CompressedRows() = default;
  CompressedRows(const plan::IndexLayout& layout, DeviceMemory& memory)
      : rows(memory, layout.rows, "row ids"),
        offsets(memory, layout.rows + 1, "offsets"),
        columns(memory, layout.blocks, "block columns") {}

  std::uint32_t num_rows = 0;
  DeviceBuffer<std::uint32_t> rows;     // [num_rows]
  DeviceBuffer<std::uint32_t> offsets;  // [num_rows + 1]
  DeviceBuffer<std::uint32_t> columns;  // [nnzb]

  [[nodiscard]] kernels::CompressedView view() const {
    return {.num_rows = num_rows, .rows = rows.data(), .offsets = offsets.data(), .columns = columns.data()};
  }
};

/// A matrix on the device: as uploaded, then sorted by block row, then as kernels read it.
struct SortedRows {
  DeviceBuffer<std::uint64_t> keys;  // [nnzb], block row << key_bits | block column; empty if nothing needs them
  DeviceBuffer<std::uint16_t>
      values;            // [nnzb, m, m], file order; arranged: [nnzb, side, side], and room for kUnitBlocks
  CompressedRows index;  // once sorted: block-CSR; B by columns: DCSC (rows read as columns)
  DeviceBuffer<std::uint32_t> numbers;  // [nnzb], record number of each block, as long as anything needs them
  std::uint32_t max_element = 0;
  bool has_zeros = false;  // a block with a column of zeros (A), of zeros alone (B)
  bool in_order = false;   // the file's order is known to be that of the rows
};

/// Owner of a TileMapsView whose tiles are counted.
struct TileMaps {
  kernels::TileGrid grid{};
  DeviceBuffer<std::uint32_t> a;
  DeviceBuffer<std::uint32_t> b;
  DeviceBuffer<std::uint32_t> c;
  plan::TileCounts counts{};

  [[nodiscard]] kernels::TileMapsView view() const {
    return {.grid = grid, .a = a.data(), .b = b.data(), .b_across = nullptr, .c = c.data()};
  }
};

/// Bits of a block row or column in keys of a matrix of nb x nb blocks.
inline unsigned key_bits_of(std::uint32_t nb) {
  return std::max(1u, static_cast<unsigned>(std::bit_width(nb - 1)));
}

/// Both matrices and the pairs they make, from the upload to the last panel. A always row-major by rows; B transposed
/// within the block, by rows or by columns.
struct SortedOperands {
  SortedOperands() = default;
  explicit SortedOperands(const MatrixHeader& header)
      : key_bits(key_bits_of(header.blocks_per_side())), m(header.m), nb(header.blocks_per_side()) {}

  SortedRows a;
  SortedRows b;
  [[nodiscard]] SortedRows& matrix(bool is_b) { return is_b ? b : a; }
  unsigned key_bits = 0;
  std::uint32_t m = 0;
  std::uint32_t nb = 0;

  // Once pairs are counted:
  DeviceBuffer<std::uint32_t> b_row_index;   // [nnzb of A]: row index in b of the matching row, or kNoRow
  DeviceBuffer<std::uint32_t> b_parts;       // [nnzb of A, 2], of a triangle: b_row_index names rows of these offsets
  DeviceBuffer<std::uint64_t> pair_offsets;  // [nnzb of A + 1]; empty if they are not wanted
  plan::RowPairs row_pairs;
  std::uint32_t max_row_blocks = 0;  // of A
  std::uint32_t c_columns = 0;       // block columns of B up to the last one that holds a block

  // Once arranged for a kernel:
  bool keeps_order = false;    // numbers stay, for other values of the same pattern
  bool in_file_order = false;  // elements are found through numbers
  bool b_by_columns = false;
  CompressedRows b_rows;          // block-CSR of B with column indices for columns, if B is by columns
  std::uint32_t side = 0;         // of blocks as they lie here: m, or padded with zeros
  std::uint32_t max_element = 0;  // of both matrices
  bool can_be_zero = true;        // a product of two blocks
  TileMaps tiles;                 // if tile-tensor reads them

  [[nodiscard]] std::uint64_t num_pairs() const { return row_pairs.offsets.back(); }
  [[nodiscard]] std::uint64_t num_a() const { return a.index.columns.size(); }
  [[nodiscard]] std::uint64_t num_b() const { return b.index.columns.size(); }
  [[nodiscard]] kernels::OperandView a_view() const { return view_of(a); }
  [[nodiscard]] kernels::OperandView b_view() const {
    kernels::OperandView view = view_of(b);
    if (!b_by_columns) view.index = b_by_row_index();
    return view;
  }
  /// B by rows, as b_row_index names them.
  [[nodiscard]] kernels::CompressedView b_by_row_index() const {
    kernels::CompressedView rows = b_by_columns ? b_rows.view() : b.index.view();
    if (b_parts.size() == 0) return rows;
    return {.num_rows = static_cast<std::uint32_t>(b_parts.size() - 1),
            .rows = nullptr,
            .offsets = b_parts.data(),
            .columns = rows.columns};
  }
  /// Both by rows.
  [[nodiscard]] kernels::RowProduct product() const {
    kernels::OperandView right = view_of(b);
    right.index = b_by_row_index();
    const std::uint64_t fitting_pairs = sure_terms(max_element, max_element) / m;
    return {.a = a_view(),
            .b = right,
            .b_row_index = b_row_index.data(),
            .pair_offsets = pair_offsets.data(),
            .num_a_blocks = num_a(),
            .num_b_blocks = std::max(static_cast<std::uint32_t>(num_b()), kernels::kUnitBlocks),
            .num_columns = num_c_columns(),
            .m = m,
            .fitting_pairs = static_cast<std::uint32_t>(std::min<std::uint64_t>(fitting_pairs, kMaxVal)),
            .can_be_zero = can_be_zero};
  }
  [[nodiscard]] kernels::BlockShape shape() const { return {.m = m, .side = side}; }
  /// Columns of C blocks: column indices of B, or block columns.
  [[nodiscard]] std::uint32_t num_c_columns() const { return b_by_columns ? b.index.num_rows : c_columns; }
  /// Block column of each column index; null if C blocks name block columns.
  [[nodiscard]] const std::uint32_t* c_column_ids() const { return b_by_columns ? b.index.rows.data() : nullptr; }

 private:
  [[nodiscard]] kernels::OperandView view_of(const SortedRows& rows) const {
    return {.index = rows.index.view(),
            .values = rows.values.data(),
            .numbers = in_file_order ? rows.numbers.data() : nullptr};
  }
};

/// Sorts and compresses both matrices by rows (stage build). Waits for the stream.
/// Memory: in the order of the stream.
/// Errors: FormatError (two records hold the same block), OutOfMemory.
void sort_rows(SortedOperands& operands, const Source& a, const Source& b, DeviceMemory& memory);

/// Runs of rows of A whose pairs come to the host at first: each takes it 4 ns.
inline constexpr std::uint32_t kMaxCountedRuns = 1u << 12;

/// Takes over pairs before each of max_runs runs, or fewer, of A's rows. Values: there are rows, and their number is
/// set.
void set_row_pairs(SortedOperands& operands, std::uint32_t max_runs, const std::uint64_t* offsets,
                   const kernels::MatchTotals& totals);

/// Counts pairs per run of rows of A, of which there are few enough for a small copy (stage count). Waits for the
/// stream.
void count_pairs(SortedOperands& operands, DeviceMemory& memory);

/// Takes the pairs below the block diagonal of C out of what is counted, and counts again (stage count). Waits for the
/// stream. Errors: UsageError (too many blocks).
void cut_to_triangle(SortedOperands& operands, DeviceMemory& memory);

/// Counts pairs per block of A, unless that is done (stage count).
void count_block_pairs(SortedOperands& operands, DeviceMemory& memory);

/// Fetches the counted pairs anew, in so many runs of rows at most. Waits for the stream.
void fetch_row_pairs(SortedOperands& operands, std::uint32_t max_runs, DeviceMemory& memory);

/// Marks and counts tiles; those of C only if there are at most max_stages products of tiles. Nothing is counted
/// if most products are there: then tiles are of no use. Waits for the stream.
TileMaps count_tiles(const kernels::TileGrid& grid, const CompressedRows& a, const CompressedRows& b,
                     std::uint64_t max_stages, DeviceMemory& memory);

/// Blocks in the order of their numbers, padded with zeros to the side of the shape (stage build).
void gather(const DeviceBuffer<std::uint16_t>& values, const DeviceBuffer<std::uint32_t>& numbers,
            kernels::BlockShape shape, const DeviceBuffer<std::uint16_t>& out, const Stream& stream);

/// Brings elements into the order a kernel wants (stage build).
void arrange_operands(SortedOperands& operands, plan::Layout layout, DeviceMemory& memory);

}  // namespace spmm::cuda
