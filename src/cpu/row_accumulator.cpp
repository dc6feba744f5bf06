#include "cpu/row_accumulator.hpp"

#include <algorithm>

#include "cpu/fetch_ahead.hpp"
#include "spmm/saturate.hpp"

namespace spmm::cpu {
namespace {

/// Pairs per block column of C from which all columns are visited. Source: products with m = 4, one thread of a Zen 4.
constexpr double kPairsPerColumn = 0.5;
constexpr std::uint32_t kFetchedBlocks = 2;       // of A: their blocks of B are on the way
constexpr std::uint64_t kMaxFetchedBytes = 2048;  // of a row of B
constexpr std::uint64_t kCacheLineBytes = 64;

}  // namespace

RowAccumulator::RowAccumulator(const Operand& a, const Operand& b, const PackedShape& shape,
                               const Arithmetic& arithmetic, AccumulatorKernel kernel, std::uint32_t blocks_per_side,
                               const Space& space, const Run& run)
    : a_(a),
      b_(b),
      kernel_(kernel),
      run_(run),
      blocks_per_side_(blocks_per_side),
      block_elements_(shape.m * shape.m),
      flush_pairs_(arithmetic.flush_pairs) {
  if (!kernel_) return;
  const std::uint64_t most = kAccumulatorBytes / sizeof(std::uint32_t) / block_elements_;
  chunk_columns_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(most, blocks_per_side));
  const std::uint64_t elements = std::uint64_t{chunk_columns_} * block_elements_;
  sums_ = space.sums.first(elements);
  totals_ = space.sums.subspan(elements, elements);
  cursors_ = space.cursors;
}

bool RowAccumulator::takes(std::uint32_t row, std::uint64_t pairs) const {
  return kernel_ && static_cast<double>(pairs) >= kPairsPerColumn * blocks_per_side_ &&
         a_.row_ptr[row + 1] - a_.row_ptr[row] <= cursors_.size();
}

void RowAccumulator::start_cursors(std::uint32_t row, std::uint32_t col_begin) {
  const std::uint32_t begin = a_.row_ptr[row];
  for (std::uint32_t x = begin; x < a_.row_ptr[row + 1]; ++x) {
    const std::uint32_t b_row = a_.cols[x];
    if (b_row == kNoRow) continue;
    const std::uint32_t* cols = b_.cols.data();
    cursors_[x - begin] =
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

std::uint32_t* RowAccumulator::sum_columns(std::uint32_t row, std::uint32_t first, std::uint32_t end) {
  const std::uint32_t begin = a_.row_ptr[row];
  const std::uint32_t row_end = a_.row_ptr[row + 1];
  const std::uint16_t* const b_values = b_.values.data();
  std::uint32_t added = 0;  // since the last fold: each block of A adds to a C block once at most
  bool folded = false;
  for (std::uint32_t x = begin; x < row_end; ++x) {
    if (x + kFetchedBlocks < row_end)
      fetch_segment(x + kFetchedBlocks, cursors_[x + kFetchedBlocks - begin], end - first);
    const std::uint32_t b_row = a_.cols[x];
    if (b_row == kNoRow) continue;
    if (added == flush_pairs_) {
      fold(end - first);
      folded = true;
      added = 0;
    }
    const std::uint32_t at = cursors_[x - begin];
    cursors_[x - begin] += kernel_.add(a_.values.data() + x * std::uint64_t{block_elements_},
                                       b_values + at * std::uint64_t{block_elements_}, b_.cols.data() + at,
                                       b_.row_ptr[b_row + 1] - at, first, end, sums_.data());
    ++added;
  }
  if (!folded) return sums_.data();
  fold(end - first);
  return totals_.data();
}

void RowAccumulator::merge(std::uint32_t row, std::uint32_t col_begin, std::uint32_t col_end, bool was_used,
                           UnitOutput& out) {
  if (was_used) {
    std::fill(sums_.begin(), sums_.end(), 0);
    std::fill(totals_.begin(), totals_.end(), 0);
  }
  start_cursors(row, col_begin);
  for (std::uint32_t first = col_begin; first < col_end;) {
    run_.check_cancelled();
    const std::uint32_t end = std::min(col_end, first + chunk_columns_);
    std::uint32_t* sums = sum_columns(row, first, end);
    while (first < end) {
      const auto count = static_cast<std::uint32_t>(std::min<std::uint64_t>(out.room(), end - first));
      out.advance_to(kernel_.store(a_.rows[row], first, count, sums, out.position()));
      sums += std::size_t{count} * block_elements_;
      first += count;
    }
  }
}

}  // namespace spmm::cpu
