#include "cpu/row_accumulator.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "cpu/fetch_ahead.hpp"
#include "plan/host_models.hpp"
#include "spmm/saturate.hpp"

namespace spmm::cpu {
namespace {

constexpr std::uint32_t kFetchedBlocks = 2;       // of A: their blocks of B are on the way
constexpr std::uint64_t kMaxFetchedBytes = 2048;  // of a row of B
constexpr std::uint64_t kCacheLineBytes = 64;
constexpr std::uint64_t kNearBytes = 768u << 10;  // of B that stay in the second-level cache
constexpr std::uint32_t kMinNearColumns = 16;
constexpr std::size_t kMaxElements = 64;  // of a block that accumulators take
constexpr std::uint64_t kMaxSum = 0xFFFF'FFFFu;

}  // namespace

RowAccumulator::RowAccumulator(const Operand& a, const Operand& b, const PackedShape& shape,
                               const Arithmetic& arithmetic, AccumulatorKernel kernel, std::uint32_t blocks_per_side,
                               const Space& space, const Run& run)
    : a_(a),
      b_(b),
      kernel_(kernel),
      run_(run),
      blocks_per_side_(blocks_per_side),
      side_(shape.m),
      block_elements_(shape.m * shape.m),
      flush_pairs_(arithmetic.flush_pairs),
      least_pairs_(plan::least_summed_pairs(shape.m) * blocks_per_side) {
  if (!kernel_) return;
  const std::uint64_t most = kAccumulatorBytes / sizeof(std::uint32_t) / block_elements_;
  chunk_columns_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(most, blocks_per_side));
  const std::uint64_t elements = std::uint64_t{chunk_columns_} * block_elements_;
  sums_ = space.sums.first(elements);
  totals_ = space.sums.subspan(elements, elements);
  cursors_ = space.cursors;
  const std::uint64_t b_bytes = std::max<std::uint64_t>(1, b.values.size() * sizeof(std::uint16_t));
  const std::uint64_t near = std::max<std::uint64_t>(kMinNearColumns, blocks_per_side * kNearBytes / b_bytes);
  const std::uint64_t columns = std::min<std::uint64_t>(chunk_columns_, near);
  const std::uint64_t chunks = (blocks_per_side - 1) / columns + 1;
  near_columns_ = static_cast<std::uint32_t>((blocks_per_side - 1) / chunks + 1);
}

bool RowAccumulator::takes(std::uint32_t row, std::uint64_t pairs) const {
  return kernel_ && static_cast<double>(pairs) >= least_pairs_ &&
         a_.row_ptr[row + 1] - a_.row_ptr[row] <= cursors_.size();
}

bool RowAccumulator::takes_together(std::uint32_t first, std::uint32_t last,
                                    std::span<const std::uint64_t> row_pairs) const {
  if (!kernel_ || last - first < 2 || a_.row_ptr[last] - a_.row_ptr[first] > cursors_.size()) return false;
  if (b_.values.size() * sizeof(std::uint16_t) <= kNearBytes) return false;
  return std::all_of(row_pairs.begin() + first, row_pairs.begin() + last,
                     [&](std::uint64_t pairs) { return pairs >= kPairsOfFullRows * blocks_per_side_; });
}

/// The largest sum of a row is bounded by the elements of A themselves where their bound would not do.
std::uint32_t RowAccumulator::pairs_to_fold(std::uint32_t row) const {
  const std::uint32_t begin = a_.row_ptr[row];
  const std::uint32_t end = a_.row_ptr[row + 1];
  if (end - begin <= flush_pairs_) return flush_pairs_;
  std::array<std::uint32_t, kMaxElements> sums{};
  for (std::uint32_t x = begin; x < end; ++x) {
    const std::uint16_t* const a = a_.values.data() + x * std::uint64_t{block_elements_};
    for (std::uint32_t e = 0; e < block_elements_; ++e) sums[e] += a[e];
  }
  std::uint64_t largest = 0;
  for (std::uint32_t r = 0; r < side_; ++r) {
    std::uint64_t sum = 0;
    for (std::uint32_t t = 0; t < side_; ++t) sum += sums[r * side_ + t];
    largest = std::max(largest, sum);
  }
  return largest * b_.bound <= kMaxSum ? end - begin : flush_pairs_;
}

void RowAccumulator::start_cursors(std::uint32_t row, std::uint32_t col_begin, std::uint32_t* cursors) {
  const std::uint32_t begin = a_.row_ptr[row];
  for (std::uint32_t x = begin; x < a_.row_ptr[row + 1]; ++x) {
    const std::uint32_t b_row = a_.cols[x];
    if (b_row == kNoRow) continue;
    const std::uint32_t* cols = b_.cols.data();
    cursors[x - begin] =
        col_begin == 0
            ? b_.row_ptr[b_row]
            : static_cast<std::uint32_t>(
                  std::lower_bound(cols + b_.row_ptr[b_row], cols + b_.row_ptr[b_row + 1], col_begin) - cols);
  }
}

void RowAccumulator::fold(std::uint32_t num_columns) {
  const std::size_t count = std::size_t{num_columns} * block_elements_;
  std::uint32_t* sums = sums_.data();
  std::uint32_t* totals = totals_.data();
  for (std::size_t e = 0; e < count; ++e) {
    totals[e] = saturating_add(totals[e], sums[e]);
    sums[e] = 0;
  }
}

void RowAccumulator::fetch_segment(std::uint32_t a_block, std::uint32_t next, std::uint32_t num_columns) const {
  const std::uint32_t b_row = a_.cols[a_block];
  if (b_row == kNoRow) return;
  const std::uint64_t length = b_.row_ptr[b_row + 1] - b_.row_ptr[b_row];
  const std::uint64_t block_bytes = block_elements_ * sizeof(std::uint16_t);
  const std::uint64_t bytes = (length * num_columns / blocks_per_side_ + 1) * block_bytes;  // evenly spread
  const auto* from = reinterpret_cast<const char*>(b_.values.data()) + next * block_bytes;
  for (std::uint64_t at = 0; at < std::min(bytes, kMaxFetchedBytes); at += kCacheLineBytes) fetch(from + at);
  fetch(b_.cols.data() + next);
}

std::uint32_t* RowAccumulator::sum_columns(std::uint32_t row, std::uint32_t first, std::uint32_t end,
                                           std::uint32_t* cursors, std::uint32_t pairs_to_fold) {
  const std::uint32_t begin = a_.row_ptr[row];
  const std::uint32_t row_end = a_.row_ptr[row + 1];
  const std::uint16_t* const b_values = b_.values.data();
  std::uint32_t added = 0;  // since the last fold: each block of A adds to a C block once at most
  bool folded = false;
  for (std::uint32_t x = begin; x < row_end; ++x) {
    if (x + kFetchedBlocks < row_end)
      fetch_segment(x + kFetchedBlocks, cursors[x + kFetchedBlocks - begin], end - first);
    const std::uint32_t b_row = a_.cols[x];
    if (b_row == kNoRow) continue;
    if (added == pairs_to_fold) {
      fold(end - first);
      folded = true;
      added = 0;
    }
    const std::uint32_t at = cursors[x - begin];
    cursors[x - begin] += kernel_.add(a_.values.data() + x * std::uint64_t{block_elements_},
                                      b_values + at * std::uint64_t{block_elements_}, b_.cols.data() + at,
                                      b_.row_ptr[b_row + 1] - at, first, end, sums_.data());
    ++added;
  }
  if (!folded) return sums_.data();
  fold(end - first);
  return totals_.data();
}

void RowAccumulator::clear_if(bool was_used) {
  if (!was_used) return;
  std::fill(sums_.begin(), sums_.end(), 0);
  std::fill(totals_.begin(), totals_.end(), 0);
}

void RowAccumulator::merge(std::uint32_t row, std::uint32_t col_begin, std::uint32_t col_end, bool was_used,
                           UnitOutput& out) {
  clear_if(was_used);
  const std::uint32_t fold_after = pairs_to_fold(row);
  start_cursors(row, col_begin, cursors_.data());
  for (std::uint32_t first = col_begin; first < col_end;) {
    run_.check_cancelled();
    const std::uint32_t end = std::min(col_end, first + chunk_columns_);
    std::uint32_t* sums = sum_columns(row, first, end, cursors_.data(), fold_after);
    while (first < end) {
      const auto count = static_cast<std::uint32_t>(std::min<std::uint64_t>(out.room(), end - first));
      out.advance_to(kernel_.store(a_.rows[row], first, count, sums, out.position()));
      sums += std::size_t{count} * block_elements_;
      first += count;
    }
  }
}

void RowAccumulator::merge_together(std::uint32_t first, std::uint32_t last, bool was_used, UnitOutput& out) {
  struct RowState {
    std::uint32_t fold_after;
    std::byte* end;  // of the records so far
  };
  clear_if(was_used);
  std::byte* const begin = out.position();
  const std::size_t row_bytes = std::size_t{blocks_per_side_} * output_record_bytes(side_);
  const std::uint32_t first_block = a_.row_ptr[first];
  std::vector<RowState> rows(last - first);
  for (std::uint32_t row = first; row < last; ++row) {
    rows[row - first] = {.fold_after = pairs_to_fold(row), .end = begin + (row - first) * row_bytes};
    start_cursors(row, 0, cursors_.data() + (a_.row_ptr[row] - first_block));
  }
  for (std::uint32_t col = 0; col < blocks_per_side_; col += near_columns_) {
    const std::uint32_t end = std::min(blocks_per_side_, col + near_columns_);
    for (std::uint32_t row = first; row < last; ++row) {
      run_.check_cancelled();
      RowState& state = rows[row - first];
      std::uint32_t* const cursors = cursors_.data() + (a_.row_ptr[row] - first_block);
      std::uint32_t* const sums = sum_columns(row, col, end, cursors, state.fold_after);
      state.end = kernel_.store(a_.rows[row], col, end - col, sums, state.end);
    }
  }
  std::byte* end = begin;
  for (std::size_t r = 0; r < rows.size(); ++r) {  // behind a row without some block the next ones move up
    std::byte* const from = begin + r * row_bytes;
    const auto bytes = static_cast<std::size_t>(rows[r].end - from);
    if (end != from) std::memmove(end, from, bytes);
    end += bytes;
  }
  out.advance_to(end);
}

}  // namespace spmm::cpu
