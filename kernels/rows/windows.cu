// Rows of a panel -> pieces of rows, in result order, for the CTAs that find columns; pieces and their columns ->
// windows, for the CTAs that multiply.
#include "kernels/rows/windows.cuh"

#include <algorithm>

#include "kernels/blocks/launch.hpp"
#include "kernels/blocks/record_output.cuh"
#include "kernels/check.hpp"
#include "kernels/device_wide.cuh"
#include "kernels/grid.cuh"
#include "kernels/items.cuh"
#include "kernels/row_segments.cuh"
#include "kernels/rows/rounds.cuh"
#include "kernels/warp.cuh"

namespace spmm::kernels {
namespace {

constexpr unsigned kSplitCtas = 2048;  // resident on the largest device

/// Slices of a window, whose blocks of A they share in turn.
constexpr std::uint32_t kSlices = 16;

// Grid: as many CTAs as fit the device; a warp takes one slice of a window after the other.
// Work: a lane searches the first column of the window in the B row of each of its blocks of A; the last window of a
//       piece also the end.
// Memory: contiguous writes; scattered reads.
__global__ void __launch_bounds__(kItemThreads)
    find_splits(RowProduct product, RankScratch scratch, const std::uint64_t* counts) {
  if (scratch.counters[kSplitsPlaced] == 0) return;  // all windows are whole rows
  const CompressedView& a = product.a.index;
  const std::uint64_t num_items = (*counts >> 32) * kSlices * 32;
  for_each_item(num_items, [=](std::uint64_t item) {
    const RankWindow window = scratch.windows[item / 32 / kSlices];
    const std::uint32_t begin = a.offsets[window.row];
    const std::uint32_t of_a = a.offsets[window.row + 1] - begin;
    const auto first_block = static_cast<std::uint32_t>(item % (kSlices * 32));
    if (window.splits == kNoRow || first_block >= of_a) return;
    const bool is_last = (window.count & kLastOfPiece) != 0;
    const std::uint32_t count = window.num_c_blocks();
    const std::uint32_t first = scratch.columns[window.first];
    const std::uint32_t last = scratch.columns[window.first + count - 1];
    for (std::uint32_t x = first_block; x < of_a; x += kSlices * 32) {
      const std::uint32_t b_row = product.b_row_index[begin + x];
      const BSegment segment = b_row == kNoRow ? BSegment{0, 0} : find_segment(product.b.index, b_row, first, last);
      scratch.splits[window.splits + x] = segment.first;
      if (is_last) scratch.splits[window.splits + of_a + x] = segment.end;
    }
  });
}

}  // namespace

std::size_t ranked_workspace_bytes(std::uint64_t max_rows, std::uint64_t max_pieces, std::uint64_t max_c_blocks) {
  return std::max({Scan<PiecesOfRow>::workspace_bytes(max_rows + 1),
                   Scan<CountsOfPiece>::workspace_bytes(max_pieces + 1), compact_workspace_bytes(max_c_blocks)});
}

void launch_find_spans(const RowProduct& product, const CBlocksView& panel, ColumnSpan* spans, std::uint32_t* max_span,
                       cudaStream_t stream) {
  // A warp per row; B's rows are sorted, their ends tell: three scattered words per block of A.
  launch_items(std::uint64_t{panel.num_rows} * 32, stream, "find_spans", [=] __device__(std::uint64_t item) {
    const CompressedView& a = product.a.index;
    const CompressedView& b = product.b.index;
    const auto x = static_cast<std::uint32_t>(item / 32);
    const std::uint32_t row = panel.row_begin + x;
    std::uint32_t first = kNoRow;
    std::uint32_t last = 0;
    for (std::uint32_t p = a.offsets[row] + item % 32; p < a.offsets[row + 1]; p += 32) {
      const std::uint32_t b_row = product.b_row_index[p];
      if (b_row == kNoRow) continue;
      first = min(first, b.columns[b.offsets[b_row]]);
      last = max(last, b.columns[b.offsets[b_row + 1] - 1]);
    }
    first = max(warp_min(first), panel.column_begin);
    const std::uint64_t end =
        min(std::uint64_t{warp_max(last)} + 1, std::uint64_t{panel.column_begin} + panel.num_columns);
    const ColumnSpan span{.first = first, .count = end > first ? static_cast<std::uint32_t>(end - first) : 0};
    if (item % 32 != 0) return;
    if (spans != nullptr) spans[x] = span;
    if (max_span != nullptr && span.count > *max_span) {
      atomicMax(max_span, span.count);  // a stale read costs one atomic
    }
  });
}

void launch_max_span(const RowProduct& product, std::uint32_t* max_span, cudaStream_t stream) {
  check(cudaMemsetAsync(max_span, 0, sizeof(std::uint32_t), stream), "clear span");
  launch_find_spans(product, {.num_rows = product.a.index.num_rows, .num_columns = kNoRow}, nullptr, max_span, stream);
}

void launch_row_pieces(const RowProduct& product, const CBlocksView& c_blocks, const RankScratch& scratch,
                       cudaStream_t stream) {
  launch_find_spans(product, c_blocks, scratch.spans, nullptr, stream);
  const PiecesOfRow pieces{
      .product = product, .row_begin = c_blocks.row_begin, .num_rows = c_blocks.num_rows, .spans = scratch.spans};
  Scan<PiecesOfRow>::launch(pieces, std::uint64_t{c_blocks.num_rows} + 1, scratch.piece_offsets, scratch.work, stream,
                            "pieces of rows");
  // The pieces of a row share its span.
  launch_items(c_blocks.num_rows, stream, "write_pieces", [=] __device__(std::uint64_t x) {
    const std::uint32_t first = scratch.piece_offsets[x];
    const std::uint32_t num_pieces = scratch.piece_offsets[x + 1] - first;
    if (num_pieces == 0) return;
    const ColumnSpan span = scratch.spans[x];
    const std::uint32_t width = ((span.count - 1) / num_pieces / 32 + 1) * 32;
    for (std::uint32_t t = 0; t < num_pieces; ++t) {
      const std::uint64_t skipped = min(std::uint64_t{t} * width, std::uint64_t{span.count});
      scratch.pieces[first + t] = {
          .row = static_cast<std::uint32_t>(c_blocks.row_begin + x),
          .first = static_cast<std::uint32_t>(span.first + skipped),
          .count = static_cast<std::uint32_t>(min(span.count - skipped, std::uint64_t{width}))};
    }
  });
}

void launch_rank_windows(const RowProduct& product, const CBlocksView& c_blocks, const RankScratch& scratch,
                         const RecordOutput& out, cudaStream_t stream) {
  const CountsOfPiece counts{.pieces = scratch.pieces, .num_pieces = scratch.piece_offsets + c_blocks.num_rows};
  Scan<CountsOfPiece>::launch(counts, scratch.max_pieces + 1, scratch.counts_before, scratch.work, stream,
                              "windows of pieces");
  // Of as many pieces as there can be, each writes its windows.
  launch_items(scratch.max_pieces, stream, "write_windows", [=] __device__(std::uint64_t x) {
    const std::uint32_t num_pieces = scratch.piece_offsets[c_blocks.num_rows];
    if (x == 0) {
      *out.num_blocks = records_of_panels_before(out) + static_cast<std::uint32_t>(scratch.counts_before[num_pieces]);
    }
    if (x >= num_pieces) return;
    const CompressedView& a = product.a.index;
    const RowPiece piece = scratch.pieces[x];
    const std::uint32_t num_windows = piece.num_windows();
    if (num_windows == 0) return;
    const std::uint64_t before = scratch.counts_before[x];
    const auto record = static_cast<std::uint32_t>(before);
    RankWindow* const to = scratch.windows + (before >> 32);
    const std::uint32_t row = piece.row - c_blocks.row_begin;
    const bool is_whole =
        scratch.has_all_columns && num_windows == 1 && scratch.piece_offsets[row + 1] - scratch.piece_offsets[row] == 1;
    const std::uint32_t of_a = a.offsets[piece.row + 1] - a.offsets[piece.row];
    std::uint32_t splits = kNoRow;  // there is no need or no room for them
    const std::uint64_t num_splits = (std::uint64_t{num_windows} + 1) * of_a;
    if (!is_whole && num_splits <= scratch.max_splits) {
      const std::uint64_t place = atomicAdd(scratch.counters + kSplitsPlaced, num_splits);  // pieces come in any order
      if (place + num_splits <= scratch.max_splits) splits = static_cast<std::uint32_t>(place);
    }
    for (std::uint32_t w = 0; w < num_windows; ++w) {
      const std::uint32_t skipped = w * piece.window;
      to[w] = {.row = piece.row,
               .first = piece.first + skipped,
               .count = min(piece.window, piece.count - skipped) | (is_whole ? kWholeRow : 0) |
                        (w + 1 == num_windows ? kLastOfPiece : 0),
               .record = record + skipped,
               .splits = splits == kNoRow ? kNoRow : splits + w * of_a};
    }
  });
  find_splits<<<kSplitCtas, kItemThreads, 0, stream>>>(product, scratch, scratch.counts_before + scratch.max_pieces);
  check_launch("find_splits");
}

}  // namespace spmm::kernels
