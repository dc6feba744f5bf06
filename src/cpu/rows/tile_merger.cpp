#include "cpu/rows/tile_merger.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "cpu/rows/fetch_ahead.hpp"
#include "cpu/simd/layout.hpp"
#include "spmm/types.hpp"

namespace spmm::cpu {
namespace {

constexpr std::uint64_t kTilesPerCheck = 1u << 24;  // some 50 ms, then a cancelled run ends
constexpr std::uint32_t kMaxComparedTiles = 32;     // touched slots that are sorted by comparison, more by marks
constexpr std::uint64_t kSlotsPerTile = 64;         // up to which looking at all slots is cheaper than listing some
constexpr std::uint64_t kMinTilesPerBlock = 2;      // of A, and window: fewer are rather sorted than searched for
constexpr std::uint64_t kMaxExactSum = 0xFFFF'FFFFu;

}  // namespace

TileMerger::TileMerger(const TileProduct& product, const Run& run)
    : product_(product),
      run_(run),
      tile_columns_(product.kernel.shape.num_columns(product.blocks_per_side)),
      sizes_(tile_merge_sizes(product.blocks_per_side, product.m, product.b.cols.size())),
      segments_(kMaxTileSegments),
      values_(std::uint64_t{window_} * product.kernel.shape.sums),
      fresh_(std::uint64_t{window_} + kScannedSlots),
      touched_(std::uint64_t{window_} + kTouchedPadding),
      marks_(MarkSizes(window_).words),
      summary_(MarkSizes(window_).summary_words),
      keyed_(sizes_.sorted),
      scratch_(sizes_.sorted),
      ranks_(sizes_.sorted),
      tile_records_(product.kernel.shape.blocks * output_record_bytes(product.m)) {
  static_assert(sizeof(TileSegment) == TileMergeSizes::kSegmentBytes);
  static_assert(sizeof(std::uint8_t) + sizeof(std::uint32_t) == TileMergeSizes::kSlotBytes);
  static_assert(2 * sizeof(std::uint64_t) + sizeof(std::uint32_t) == TileMergeSizes::kSortedBytes);
  std::fill(values_.begin(), values_.end(), 0);
  std::fill(fresh_.begin(), fresh_.end(), std::uint8_t{1});
  std::fill(marks_.begin(), marks_.end(), 0);
  std::fill(summary_.begin(), summary_.end(), 0);
  sums_ = {.values = values_.data(), .fresh = fresh_.data(), .touched = touched_.data()};
}

void TileMerger::merge(std::uint32_t row, std::uint64_t pairs, std::uint32_t col_begin, std::uint32_t col_end,
                       RecordWriter& out) {
  row_ = row;
  const PackedOperand& a = product_.a;
  const std::uint64_t terms = std::uint64_t{a.row_ptr[row + 1] - a.row_ptr[row]} * product_.m;
  const std::uint64_t largest = std::max<std::uint64_t>(1, std::uint64_t{a.seen_bits} * product_.b_bound);
  saturates_ = terms > kMaxExactSum / largest;
  if (pairs <= kShortRowPairs) fetch_rows_ahead();
  const std::uint32_t per_tile = product_.kernel.shape.blocks;
  const std::uint32_t begin = col_begin / per_tile;
  const std::uint32_t end = col_end == 0 ? 0 : (col_end - 1) / per_tile + 1;
  lists_ = pairs * kSlotsPerTile < end - begin;
  is_crowded_ = pairs >= end - begin;
  merge_tiles(begin, end, out);
}

void TileMerger::fetch_rows_ahead() const {
  const TileOperand& b = product_.b;
  const std::uint64_t tile = product_.kernel.shape.values;
  for_rows_of_b(product_.a, row_, kPointerRowsAhead, [&](std::uint32_t b_row) { fetch(b.row_ptr.data() + b_row); });
  for_rows_of_b(product_.a, row_, kColumnRowsAhead, [&](std::uint32_t b_row) {
    fetch(b.cols.data() + b.row_ptr[b_row]);
    fetch(b.values.data() + b.row_ptr[b_row] * tile);
  });
}

template <class Body>
void TileMerger::for_segments(std::uint32_t begin, std::uint32_t end, const Body& body) const {
  const PackedOperand& a = product_.a;
  const TileOperand& b = product_.b;
  for (std::uint32_t x = a.row_ptr[row_]; x < a.row_ptr[row_ + 1]; ++x) {
    const std::uint32_t b_row = a.b_rows()[x];
    if (b_row == kNoRow) continue;
    std::uint32_t first = b.row_ptr[b_row];
    std::uint32_t last = b.row_ptr[b_row + 1];
    const std::uint32_t* const cols = b.cols.data();
    if (end != tile_columns_) {
      last = static_cast<std::uint32_t>(std::lower_bound(cols + first, cols + last, end) - cols);
    }
    if (begin != 0) first = static_cast<std::uint32_t>(std::lower_bound(cols + first, cols + last, begin) - cols);
    if (first != last) body(x, first, last);
  }
}

TileMerger::Survey TileMerger::survey(std::uint32_t begin, std::uint32_t end) const {
  Survey out{.first = end, .last = begin};
  for_segments(begin, end, [&](std::uint32_t, std::uint32_t first, std::uint32_t last) {
    out.first = std::min(out.first, product_.b.cols[first]);
    out.last = std::max(out.last, product_.b.cols[last - 1]);
    out.num_tiles += last - first;
  });
  return out;
}

void TileMerger::merge_tiles(std::uint32_t begin, std::uint32_t end, RecordWriter& out) {
  if (begin >= end) return;
  if (window_ == tile_columns_) return merge_whole(begin, end, out);
  run_.check_cancelled();
  const Survey found = survey(begin, end);
  if (found.num_tiles == 0) return;
  const std::uint64_t span = std::uint64_t{found.last} - found.first + 1;
  if (span <= window_) {
    lists_ = found.num_tiles * kSlotsPerTile < span;
    return merge_window(begin, end, {.base = found.first, .begin = 0, .end = static_cast<std::uint32_t>(span)}, out);
  }
  const std::uint64_t windows = span / window_ + 1;
  const std::uint64_t searched = product_.a.row_ptr[row_ + 1] - product_.a.row_ptr[row_];  // for every window
  const bool is_thin = found.num_tiles < kMinTilesPerBlock * windows * searched;
  if (is_thin && found.num_tiles <= keyed_.size()) return merge_sorted(begin, end, out);
  const auto middle = static_cast<std::uint32_t>(found.first + span / 2);
  merge_tiles(begin, middle, out);
  merge_tiles(middle, end, out);
}

void TileMerger::merge_whole(std::uint32_t begin, std::uint32_t end, RecordWriter& out) {
  const PackedOperand& a = product_.a;
  if (is_crowded_ || a.row_ptr[row_ + 1] - a.row_ptr[row_] >= segments_.size()) {
    return merge_window(begin, end, {.base = 0, .begin = begin, .end = end}, out);
  }
  // One pass over the row of A finds both its segments and where their tiles lie, which may be a small part.
  const std::uint32_t* const cols = product_.b.cols.data();
  Survey found{.first = end, .last = begin};
  for_segments(begin, end, [&](std::uint32_t x, std::uint32_t first, std::uint32_t last) {
    found.first = std::min(found.first, cols[first]);
    found.last = std::max(found.last, cols[last - 1]);
    found.num_tiles += last - first;
    add_segment(x, first, last, cols + first);
  });
  if (found.num_tiles == 0) return;
  lists_ = found.num_tiles * kSlotsPerTile < std::uint64_t{found.last} - found.first + 1;
  sums_.base = 0;
  run_kernel();
  list_and_write({.base = 0, .begin = found.first, .end = found.last + 1}, out);
}

void TileMerger::add_segment(std::uint32_t x, std::uint32_t first, std::uint32_t last, const std::uint32_t* slots) {
  // Written where it stays: a copy would wait for its parts.
  TileSegment& segment = segments_[num_segments_++];
  segment.a = product_.a.values.data() + x * (std::uint64_t{product_.m} * product_.m);
  segment.b = product_.b.values.data() + std::uint64_t{first} * product_.kernel.shape.values;
  segment.slots = slots;
  segment.count = last - first;
  tiles_since_check_ += segment.count;
  if (num_segments_ == segments_.size()) run_kernel();
}

void TileMerger::run_kernel() {
  if (tiles_since_check_ >= kTilesPerCheck) {
    run_.check_cancelled();
    tiles_since_check_ = 0;
  }
  const AddSegments add = product_.kernel.add[saturates_ ? 1 : 0][lists_ ? 1 : 0];
  num_touched_ = add(segments_.data(), std::exchange(num_segments_, 0), sums_, num_touched_);
}

void TileMerger::merge_window(std::uint32_t begin, std::uint32_t end, const Slots& slots, RecordWriter& out) {
  sums_.base = slots.base;
  for_segments(begin, end, [&](std::uint32_t x, std::uint32_t first, std::uint32_t last) {
    add_segment(x, first, last, product_.b.cols.data() + first);
  });
  run_kernel();
  list_and_write(slots, out);
}

void TileMerger::list_and_write(const Slots& slots, RecordWriter& out) {
  if (lists_) {
    order_touched();
  } else {
    num_touched_ = product_.kernel.list(sums_, slots.begin, slots.end);
  }
  write(false, out);
}

void TileMerger::merge_sorted(std::uint32_t begin, std::uint32_t end, RecordWriter& out) {
  const TileOperand& b = product_.b;
  std::uint32_t count = 0;
  for_segments(begin, end, [&](std::uint32_t, std::uint32_t first, std::uint32_t last) {
    for (std::uint32_t y = first; y < last; ++y, ++count) keyed_[count] = std::uint64_t{b.cols[y]} << 32 | count;
  });
  const auto bits = static_cast<unsigned>(std::bit_width(tile_columns_));
  const std::uint64_t* const sorted = sorter_.sort(keyed_.data(), count, scratch_.data(), 32, 32 + bits);
  std::uint32_t rank = 0;
  std::uint32_t* const tiles = touched_.data();
  tiles[0] = static_cast<std::uint32_t>(sorted[0] >> 32);
  for (std::uint32_t x = 0; x < count; ++x) {
    const auto tile = static_cast<std::uint32_t>(sorted[x] >> 32);
    if (tile != tiles[rank]) tiles[++rank] = tile;
    ranks_[static_cast<std::uint32_t>(sorted[x])] = rank;
  }
  lists_ = false;  // the tiles are where the list would be
  sums_.base = 0;
  num_touched_ = rank + 1;
  const std::uint32_t* ranks = ranks_.data();
  for_segments(begin, end, [&](std::uint32_t x, std::uint32_t first, std::uint32_t last) {
    add_segment(x, first, last, ranks);
    ranks += last - first;
  });
  run_kernel();
  write(true, out);
}

void TileMerger::order_touched() {
  std::uint32_t* const touched = touched_.data();
  if (num_touched_ <= kMaxComparedTiles) {
    std::sort(touched, touched + num_touched_);
    for (std::uint32_t x = 0; x < num_touched_; ++x) touched[x] += sums_.base;
    return;
  }
  for (std::uint32_t x = 0; x < num_touched_; ++x) {
    marks_[touched[x] / 64] |= std::uint64_t{1} << (touched[x] % 64);
    summary_[touched[x] / 4096] |= std::uint64_t{1} << (touched[x] / 64 % 64);
  }
  std::uint32_t next = 0;
  for (std::uint64_t s = 0; s < summary_.size(); ++s) {
    for (std::uint64_t words = std::exchange(summary_[s], 0); words != 0; words &= words - 1) {
      const std::uint64_t word = s * 64 + static_cast<std::uint64_t>(std::countr_zero(words));
      for (std::uint64_t bits = std::exchange(marks_[word], 0); bits != 0; bits &= bits - 1) {
        const std::uint64_t slot = word * 64 + static_cast<std::uint64_t>(std::countr_zero(bits));
        touched[next++] = static_cast<std::uint32_t>(slot) + sums_.base;
      }
    }
  }
}

void TileMerger::write(bool by_number, RecordWriter& out) {
  const std::uint32_t per_tile = product_.kernel.shape.blocks;
  TileSums sums = sums_;
  const std::uint32_t count = std::exchange(num_touched_, 0);
  for (std::uint32_t x = 0; x < count;) {
    const auto fit = static_cast<std::uint32_t>(std::min<std::uint64_t>(out.room() / per_tile, count - x));
    const std::uint32_t here = std::max(1u, fit);
    const TileRow row{
        .tiles = touched_.data() + x, .count = here, .by_number = by_number, .row = product_.a.rows[row_]};
    if (by_number) {
      sums.values = sums_.values + std::uint64_t{x} * product_.kernel.shape.sums;
      sums.fresh = sums_.fresh + x;
    }
    x += here;
    if (fit != 0) {
      out.advance_to(product_.kernel.write(row, sums, out.position()));
      continue;
    }
    out.append(tile_records_.data(), product_.kernel.write(row, sums, tile_records_.data()));
  }
}

}  // namespace spmm::cpu
