// Parsed matrices -> block-CSR of both, matching blocks, and the layouts that kernels read.
#pragma once

#include <cstdint>

#include "cuda/operands/upload.hpp"
#include "kernels/blocks/launch.hpp"
#include "kernels/tiles/launch.hpp"
#include "kernels/views.hpp"
#include "plan/execution.hpp"
#include "plan/memory/device_bytes.hpp"

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

/// A matrix sorted by block row; its elements still lie in file order.
struct SortedRows {
  CompressedRows index;                       // block-CSR
  DeviceBuffer<std::uint64_t> keys;           // [nnzb], sorted; empty if nothing needs them any more
  DeviceBuffer<std::uint32_t> numbers;        // [nnzb], record number of each block
  DeviceBuffer<std::uint16_t> parsed_values;  // [nnzb, m, m], file order
  std::uint32_t max_element = 0;
  bool has_zeros = false;  // as ParsedMatrix has it
  bool in_order = false;   // the file's order is that of the rows
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

/// Both matrices by rows, and the pairs they make.
struct SortedOperands {
  SortedRows a;
  SortedRows b;
  unsigned key_bits = 0;
  std::uint32_t m = 0;
  std::uint32_t nb = 0;
  DeviceBuffer<std::uint32_t> b_row_index;   // [nnzb of A]: row index in b of the matching row, or kNoRow
  DeviceBuffer<std::uint64_t> pair_offsets;  // [nnzb of A + 1]; empty until they are wanted
  plan::RowPairs row_pairs;
  std::uint32_t c_columns = 0;  // with them: block columns of B up to the last one that holds a block
  bool keeps_order = false;     // the operands keep the numbers, for other values of the same pattern

  [[nodiscard]] std::uint64_t num_pairs() const { return row_pairs.offsets.back(); }
};

/// What a multiply kernel reads. A always row-major by rows; B transposed within the block, by rows or by columns.
struct DeviceOperands {
  CompressedRows a;
  CompressedRows b;                       // block-CSR, or DCSC (rows read as columns)
  CompressedRows b_rows;                  // block-CSR with column indices for columns; empty if b is by rows
  DeviceBuffer<std::uint16_t> a_values;   // [nnzb, side, side]
  DeviceBuffer<std::uint16_t> b_values;   // [nnzb, side, side]
  DeviceBuffer<std::uint32_t> a_numbers;  // [nnzb], only in file order
  DeviceBuffer<std::uint32_t> b_numbers;
  DeviceBuffer<std::uint32_t> a_order;  // [nnzb]: block of the caller that lies here, if that is kept
  DeviceBuffer<std::uint32_t> b_order;
  bool b_by_columns = false;
  std::uint32_t m = 0;
  std::uint32_t side = 0;  // of blocks as they lie here: m, or padded with zeros
  std::uint32_t nb = 0;
  std::uint32_t c_columns = 0;               // block columns up to the last one that C can have
  std::uint32_t max_element = 0;             // of both matrices
  std::uint32_t max_row_blocks = 0;          // of A
  bool can_be_zero = true;                   // a product of two blocks
  DeviceBuffer<std::uint32_t> b_row_index;   // [nnzb of A]
  DeviceBuffer<std::uint64_t> pair_offsets;  // [nnzb of A + 1]
  TileMaps tiles;                            // if tile-tensor reads them

  [[nodiscard]] kernels::OperandView a_view() const {
    return {.index = a.view(), .values = a_values.data(), .numbers = a_numbers.data()};
  }
  [[nodiscard]] kernels::OperandView b_view() const {
    return {.index = b.view(), .values = b_values.data(), .numbers = b_numbers.data()};
  }
  [[nodiscard]] kernels::ExpandView expand_view() const {
    return {.a = a.view(),
            .b_rows = b_by_columns ? b_rows.view() : b.view(),
            .b_row_index = b_row_index.data(),
            .pair_offsets = pair_offsets.data(),
            .a_numbers = a_numbers.data(),
            .b_numbers = b_numbers.data()};
  }
  [[nodiscard]] kernels::BlockShape shape() const { return {.m = m, .side = side}; }
  /// Columns of C blocks: column indices of B, or block columns.
  [[nodiscard]] std::uint32_t num_c_columns() const { return b_by_columns ? b.num_rows : c_columns; }
  /// Block column of each column index; null if C blocks name block columns.
  [[nodiscard]] const std::uint32_t* c_column_ids() const { return b_by_columns ? b.rows.data() : nullptr; }
};

/// Sorts and compresses both matrices by rows (stage build), with keys, which are taken from `parsed`. Waits for the
/// stream.
/// Values: out.nb and out.key_bits are set.
/// Memory: in the order of the stream.
/// Errors: FormatError (two records hold the same block), OutOfMemory.
void sort_rows(ParsedOperands& parsed, const Source& a, const Source& b, SortedOperands& out, DeviceMemory& memory,
               const Stream& stream);

/// Runs of rows of A whose pairs come to the host at first: each takes it 4 ns.
inline constexpr std::uint32_t kMaxCountedRuns = 1u << 12;

/// Takes over pairs before each of max_runs runs, or fewer, of A's rows. Values: there are rows, and their number is
/// set.
void set_row_pairs(SortedOperands& sorted, std::uint32_t max_runs, const std::uint64_t* offsets,
                   const kernels::MatchTotals& totals);

/// Counts pairs per run of rows of A, of which there are few enough for a small copy (stage count). Waits for the
/// stream.
void count_pairs(SortedOperands& sorted, DeviceMemory& memory, const Stream& stream);

/// Counts pairs per block of A, unless that is done (stage count).
void count_block_pairs(SortedOperands& sorted, DeviceMemory& memory, const Stream& stream);

/// Fetches the counted pairs anew, in so many runs of rows at most. Waits for the stream.
void fetch_row_pairs(SortedOperands& sorted, std::uint32_t max_runs, DeviceMemory& memory, const Stream& stream);

/// Marks and counts tiles; those of C only if there are at most max_stages products of tiles. Nothing is counted
/// if a sample shows far more. Waits for the stream.
TileMaps count_tiles(const kernels::TileGrid& grid, const CompressedRows& a, const CompressedRows& b,
                     std::uint64_t max_stages, DeviceMemory& memory, const Stream& stream);

/// Blocks in the order of their numbers, padded with zeros to the side of the shape (stage build).
void gather(const DeviceBuffer<std::uint16_t>& values, const DeviceBuffer<std::uint32_t>& numbers,
            kernels::BlockShape shape, const DeviceBuffer<std::uint16_t>& out, const Stream& stream);

/// Brings elements into the order a kernel wants (stage build). `sorted` is consumed.
DeviceOperands arrange_operands(SortedOperands sorted, plan::Layout layout, DeviceMemory& memory, const Stream& stream);

}  // namespace spmm::cuda
