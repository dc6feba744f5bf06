#include "cpu/rows/merger.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>
#include <utility>

#include "base/records/head.hpp"
#include "cpu/rows/fetch_ahead.hpp"
#include "cpu/simd/layout.hpp"
#include "spmm/saturate.hpp"
#include "spmm/types.hpp"

namespace spmm::cpu {
namespace {

constexpr std::uint32_t kMaxMultiplyAdds =
    1u << 28;                                // of one list: 0.2 s by the portable kernel, then a cancelled run ends
constexpr std::uint32_t kFetchedBlocks = 8;  // of a row of B
constexpr std::uint64_t kCacheLineBytes = 64;
constexpr std::uint32_t kLineColumns = kCacheLineBytes / sizeof(std::uint32_t);
constexpr std::uint32_t kMergedAhead = 4;  // whose columns are fetched

/// Of one list.
std::uint32_t max_list_pairs(const RowProduct& product, const MergeSizes& sizes) {
  const std::uint32_t m = product.operands.shape.m;
  return std::min(sizes.pairs, kMaxMultiplyAdds / (m * m * m));
}

}  // namespace

RowMerger::RowMerger(const RowProduct& product, const Run& run)
    : product_(product),
      run_(run),
      sizes_(merge_sizes(product.blocks_per_side, product.b.cols.size())),
      operands_(product.operands),
      max_pairs_(max_list_pairs(product, sizes_)),
      segments_(sizes_.pairs),
      pairs_(sizes_.pairs + kPairsAhead),
      c_blocks_(sizes_.pairs),
      cursors_(sizes_.pairs),
      position_(sizes_.columns),
      marks_(MarkSizes(sizes_.columns).words),
      summary_(MarkSizes(sizes_.columns).summary_words),
      accumulator_(product, sizes_, {cursors_.data(), cursors_.size()}, run) {
  static_assert(sizeof(Segment) + sizeof(PairRef) + sizeof(CBlock) + sizeof(std::uint32_t) == MergeSizes::kEntryBytes);
  static_assert(2 * sizeof(std::uint64_t) + sizeof(PairRef) == MergeSizes::kSortedBytes);
  std::fill(position_.begin(), position_.end(), 0);
  std::fill(marks_.begin(), marks_.end(), 0);
  std::fill(summary_.begin(), summary_.end(), 0);
  if (sizes_.columns != 0) return;
  keyed_ = AlignedArray<std::uint64_t>(sizes_.pairs);
  scratch_ = AlignedArray<std::uint64_t>(sizes_.pairs);
  unsorted_ = AlignedArray<PairRef>(sizes_.pairs);
}

void RowMerger::fetch_rows_ahead() const {
  const PackedOperand& a = product_.a;
  const PackedOperand& b = product_.b;
  for_rows_of_b(a, row_, kPointerRowsAhead, [&](std::uint32_t b_row) { fetch(b.row_ptr.data() + b_row); });
  for_rows_of_b(a, row_, kColumnRowsAhead, [&](std::uint32_t b_row) { fetch(b.cols.data() + b.row_ptr[b_row]); });
  const std::uint64_t stride = product_.operands.shape.b_elements();
  const std::uint64_t row_bytes = stride * sizeof(std::uint16_t);
  for_rows_of_b(a, row_, kBlockRowsAhead, [&](std::uint32_t b_row) {
    const std::uint32_t begin = b.row_ptr[b_row];
    const std::uint32_t count = std::min(b.row_ptr[b_row + 1] - begin, kFetchedBlocks);
    const auto* from = reinterpret_cast<const char*>(b.values.data() + begin * stride);
    for (std::uint64_t at = 0; at < count * row_bytes; at += kCacheLineBytes) fetch_near(from + at);
  });
}

void RowMerger::merge(std::uint32_t row, std::uint64_t pairs, std::uint32_t col_begin, std::uint32_t col_end,
                      RecordWriter& out) {
  row_ = row;
  if (accumulator_.takes(row, pairs)) return accumulator_.merge(row, col_begin, col_end, out);
  operands_.arithmetic = product_.arithmetic.of(row);
  if (col_end != product_.blocks_per_side || pairs > max_pairs_) {
    return merge_by_columns(pairs, col_begin, col_end, out);
  }
  if (pairs <= kShortRowPairs) fetch_rows_ahead();
  collect_from(col_begin);
  multiply_list(out);
}

void RowMerger::merge_by_columns(std::uint64_t pairs, std::uint32_t col_begin, std::uint32_t col_end,
                                 RecordWriter& out) {
  start_cursors(col_begin);
  // Columns that hold half a list of pairs on average; halved if there are more, doubled where far fewer.
  const double share = 0.5 * max_pairs_ / static_cast<double>(std::max<std::uint64_t>(pairs, 1));
  std::uint64_t width = std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>(std::min(1.0, share) * static_cast<double>(product_.blocks_per_side)));
  for (std::uint64_t col = col_begin; col < col_end;) {
    run_.check_cancelled();
    const std::uint64_t end = std::min<std::uint64_t>(col + width, col_end);
    if (!collect_columns(static_cast<std::uint32_t>(col), static_cast<std::uint32_t>(end))) {
      if (end - col > 1) {
        width = (end - col) / 2;
        continue;
      }
      multiply_long_column(static_cast<std::uint32_t>(col), out);
    } else {
      multiply_list(out);
      if (num_pairs_ < max_pairs_ / 4) width *= 2;
    }
    col = end;
  }
}

std::uint32_t RowMerger::first_at_least(std::uint32_t b_row, std::uint32_t col) const {
  const std::uint32_t* cols = product_.b.cols.data();
  const std::uint32_t* begin = cols + product_.b.row_ptr[b_row];
  const std::uint32_t* end = cols + product_.b.row_ptr[b_row + 1];
  return static_cast<std::uint32_t>(std::lower_bound(begin, end, col) - cols);
}

bool RowMerger::has_cursors() const {
  // A row with more blocks is searched anew for every range of columns.
  return product_.a.row_ptr[row_ + 1] - product_.a.row_ptr[row_] <= cursors_.size();
}

void RowMerger::start_cursors(std::uint32_t col_begin) {
  if (!has_cursors()) return;
  const PackedOperand& a = product_.a;
  const std::uint32_t begin = a.row_ptr[row_];
  for (std::uint32_t x = begin; x < a.row_ptr[row_ + 1]; ++x) {
    const std::uint32_t b_row = a.b_rows()[x];
    if (b_row != kNoRow) cursors_[x - begin] = first_at_least(b_row, col_begin);
  }
}

void RowMerger::add_segment(const Segment& segment) {
  segments_[num_segments_++] = segment;
  num_pairs_ += segment.end - segment.begin;
}

void RowMerger::collect_from(std::uint32_t col_begin) {
  const PackedOperand& a = product_.a;
  const PackedOperand& b = product_.b;
  num_segments_ = 0;
  num_pairs_ = 0;
  for (std::uint32_t x = a.row_ptr[row_]; x < a.row_ptr[row_ + 1]; ++x) {
    const std::uint32_t b_row = a.b_rows()[x];
    if (b_row == kNoRow) continue;
    const std::uint32_t begin = col_begin == 0 ? b.row_ptr[b_row] : first_at_least(b_row, col_begin);
    // It has a block, so there are no more segments than pairs.
    if (begin != b.row_ptr[b_row + 1]) add_segment({.a = x, .begin = begin, .end = b.row_ptr[b_row + 1]});
  }
}

bool RowMerger::collect_columns(std::uint32_t col_begin, std::uint32_t col_end) {
  const PackedOperand& a = product_.a;
  const PackedOperand& b = product_.b;
  const std::uint32_t first = a.row_ptr[row_];
  const bool cursors = has_cursors();
  num_segments_ = 0;
  num_pairs_ = 0;
  for (std::uint32_t x = first; x < a.row_ptr[row_ + 1]; ++x) {
    const std::uint32_t b_row = a.b_rows()[x];
    if (b_row == kNoRow) continue;
    const std::uint32_t begin = cursors ? cursors_[x - first] : first_at_least(b_row, col_begin);
    std::uint32_t end = begin;
    const std::uint32_t row_end = b.row_ptr[b_row + 1];
    while (end < row_end && b.cols[end] < col_end) ++end;
    if (end == begin) continue;
    if (end - begin > max_pairs_ - num_pairs_) return false;
    add_segment({.a = x, .begin = begin, .end = end});
  }
  if (!cursors) return true;
  for (std::uint32_t s = 0; s < num_segments_; ++s) cursors_[segments_[s].a - first] = segments_[s].end;
  return true;
}

void RowMerger::multiply_list(RecordWriter& out) {
  order_pairs();
  run_kernel(out);
}

void RowMerger::order_pairs() {
  num_c_blocks_ = 0;
  if (num_pairs_ <= kMaxRankedKeys) {
    rank_pairs();
  } else if (sizes_.columns == 0) {
    sort_pairs();
  } else {
    mark_columns();
    place_pairs();
    for (std::uint32_t t = 0; t < num_c_blocks_; ++t) position_[c_blocks_[t].col] = 0;
  }
  std::fill_n(pairs_.data() + num_pairs_, kPairsAhead, PairRef{.a = 0, .b = 0});
}

void RowMerger::fetch_columns(std::uint32_t segment) const {
  if (segment >= num_segments_ || num_pairs_ <= kShortRowPairs) return;  // fetch_rows_ahead() has
  const std::uint32_t* cols = product_.b.cols.data();
  for (std::uint32_t y = segments_[segment].begin; y < segments_[segment].end; y += kLineColumns) fetch(cols + y);
}

void RowMerger::mark_columns() {
  const std::uint32_t* cols = product_.b.cols.data();
  std::uint32_t* const position = position_.data();
  std::uint64_t* const marks = marks_.data();
  std::uint64_t* const summary = summary_.data();
  CBlock* const c_blocks = c_blocks_.data();
  const bool sums_up = marks_.size() > num_pairs_;  // else a look at every word costs less
  for (std::uint32_t s = 0; s < num_segments_; ++s) {
    fetch_columns(s + kMergedAhead);
    for (std::uint32_t y = segments_[s].begin; y < segments_[s].end; ++y) {
      const std::uint32_t col = cols[y];
      ++position[col];
      marks[col / 64] |= std::uint64_t{1} << (col % 64);
      if (sums_up) summary[col / 4096] |= std::uint64_t{1} << (col / 64 % 64);
    }
  }
  std::uint32_t next = 0;
  std::uint32_t num_c_blocks = 0;  // not the member: it would be stored and loaded for each one
  const auto list_word = [&](std::uint64_t word) {
    for (std::uint64_t bits = std::exchange(marks[word], 0); bits != 0; bits &= bits - 1) {
      const auto col = static_cast<std::uint32_t>(word * 64 + static_cast<std::uint64_t>(std::countr_zero(bits)));
      const std::uint32_t count = std::exchange(position[col], next);
      next += count;
      c_blocks[num_c_blocks++] = {.col = col, .end = next};
    }
  };
  for (std::uint64_t word = 0; !sums_up && word < marks_.size(); ++word) list_word(word);
  for (std::uint64_t s = 0; sums_up && s < summary_.size(); ++s) {
    for (std::uint64_t words = std::exchange(summary[s], 0); words != 0; words &= words - 1) {
      list_word(s * 64 + static_cast<std::uint64_t>(std::countr_zero(words)));
    }
  }
  num_c_blocks_ = num_c_blocks;
}

void RowMerger::place_pairs() {
  const std::uint32_t* cols = product_.b.cols.data();
  std::uint32_t* position = position_.data();
  PairRef* pairs = pairs_.data();
  for (const Segment& segment : std::span(segments_.data(), num_segments_)) {
    for (std::uint32_t y = segment.begin; y < segment.end; ++y) pairs[position[cols[y]]++] = {.a = segment.a, .b = y};
  }
}

void RowMerger::sort_pairs() {
  constexpr unsigned kColumnShift = 32;
  const std::uint32_t* cols = product_.b.cols.data();
  std::uint32_t count = 0;
  for (const Segment& segment : std::span(segments_.data(), num_segments_)) {
    for (std::uint32_t y = segment.begin; y < segment.end; ++y, ++count) {
      keyed_[count] = std::uint64_t{cols[y]} << kColumnShift | count;
      unsorted_[count] = {.a = segment.a, .b = y};
    }
  }
  const auto column_bits = static_cast<unsigned>(std::bit_width(product_.blocks_per_side));
  const std::uint64_t* const sorted =
      sorter_.sort(keyed_.data(), count, scratch_.data(), kColumnShift, kColumnShift + column_bits);
  for (std::uint32_t x = 0; x < count; ++x) {
    const auto col = static_cast<std::uint32_t>(sorted[x] >> kColumnShift);
    pairs_[x] = unsorted_[static_cast<std::uint32_t>(sorted[x])];
    if (num_c_blocks_ == 0 || c_blocks_[num_c_blocks_ - 1].col != col) ++num_c_blocks_;
    c_blocks_[num_c_blocks_ - 1] = {.col = col, .end = x + 1};
  }
}

void RowMerger::rank_pairs() {
  alignas(64) std::array<std::uint32_t, kMaxRankedKeys> cols;
  alignas(64) std::array<std::uint32_t, kMaxRankedKeys> ranks;
  std::array<PairRef, kMaxRankedKeys> pairs;
  std::uint32_t count = 0;
  for (const Segment& segment : std::span(segments_.data(), num_segments_)) {
    for (std::uint32_t y = segment.begin; y < segment.end; ++y, ++count) {
      cols[count] = product_.b.cols[y];
      pairs[count] = {.a = segment.a, .b = y};
    }
  }
  std::fill_n(cols.begin() + count, (kRankLanes - count % kRankLanes) % kRankLanes, 0);
  product_.rank(cols.data(), count, ranks.data());
  std::array<std::uint8_t, kMaxRankedKeys> num_same{};  // pairs of a column, at the rank that all of them have
  for (std::uint32_t p = 0; p < count; ++p) {
    const std::uint32_t at = ranks[p];
    pairs_[at + num_same[at]++] = pairs[p];
    c_blocks_[at].col = cols[p];
  }
  for (std::uint32_t at = 0; at < count; at += num_same[at]) {
    c_blocks_[num_c_blocks_++] = {.col = c_blocks_[at].col, .end = at + num_same[at]};
  }
}

std::byte* RowMerger::multiply(const CBlockList& list, std::byte* out) const {
  const MultiplyCBlocks kernel = operands_.arithmetic.wide ? product_.wide_kernel : product_.narrow_kernel;
  return kernel(operands_, list, out);
}

void RowMerger::run_kernel(RecordWriter& out) {
  std::uint32_t begin = 0;
  for (std::uint32_t t = 0; t < num_c_blocks_;) {
    const auto count = static_cast<std::uint32_t>(std::min<std::uint64_t>(out.room(), num_c_blocks_ - t));
    const CBlockList list{.row = product_.a.rows[row_],
                          .c_blocks = {c_blocks_.data() + t, count},
                          .begin = begin,
                          .pairs = pairs_.data()};
    out.advance_to(multiply(list, out.position()));
    t += count;
    begin = c_blocks_[t - 1].end;
  }
}

void RowMerger::multiply_long_column(std::uint32_t col, RecordWriter& out) {
  // A C block with more pairs than a list holds: sums of its parts are clamped and merged, which gives the same as one
  // sum.
  const PackedOperand& a = product_.a;
  const PackedOperand& b = product_.b;
  const std::uint32_t m = product_.operands.shape.m;
  const std::uint64_t record = output_record_bytes(m);
  const std::uint32_t first = a.row_ptr[row_];
  const bool cursors = has_cursors();
  std::vector<std::uint32_t> sums(std::size_t{m} * m, 0);
  num_pairs_ = 0;
  for (std::uint32_t x = first; x < a.row_ptr[row_ + 1]; ++x) {
    const std::uint32_t b_row = a.b_rows()[x];
    if (b_row == kNoRow) continue;
    const std::uint32_t y = cursors ? cursors_[x - first] : first_at_least(b_row, col);
    if (y == b.row_ptr[b_row + 1] || b.cols[y] != col) continue;
    if (cursors) cursors_[x - first] = y + 1;
    pairs_[num_pairs_++] = {.a = x, .b = y};
    if (num_pairs_ == max_pairs_) add_part(col, sums);
  }
  add_part(col, sums);
  if (std::all_of(sums.begin(), sums.end(), [](std::uint32_t sum) { return sum == 0; })) return;
  static_cast<void>(out.room());
  write_index(out.position(), {.i = a.rows[row_], .j = col});
  std::memcpy(out.position() + kIndexBytes, sums.data(), record - kIndexBytes);
  out.advance_to(out.position() + record);
}

void RowMerger::add_part(std::uint32_t col, std::vector<std::uint32_t>& sums) {
  run_.check_cancelled();
  part_record_.resize(output_record_bytes(product_.operands.shape.m));
  std::fill_n(pairs_.data() + num_pairs_, kPairsAhead, PairRef{.a = 0, .b = 0});
  const CBlock c_block{.col = col, .end = std::exchange(num_pairs_, 0)};
  const CBlockList list{.row = product_.a.rows[row_], .c_blocks = {&c_block, 1}, .begin = 0, .pairs = pairs_.data()};
  const std::byte* end = multiply(list, part_record_.data());
  if (end == part_record_.data()) return;  // all zero
  for (std::size_t e = 0; e < sums.size(); ++e) {
    std::uint32_t value = 0;
    std::memcpy(&value, part_record_.data() + kIndexBytes + e * sizeof value, sizeof value);
    sums[e] = saturating_add(sums[e], value);
  }
}

}  // namespace spmm::cpu
