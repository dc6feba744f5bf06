#include "cpu/rows/accumulator.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "cpu/rows/fetch_ahead.hpp"
#include "plan/models/host_models.hpp"
#include "spmm/saturate.hpp"

namespace spmm::cpu {
namespace {

constexpr std::uint32_t kRunsAhead = 2;              // blocks of A: their blocks of B are on the way
constexpr std::uint64_t kLeastRun = 2;               // pairs of a block of A in a chunk of columns
constexpr std::size_t kLineElements = 16;            // of a cache line, 32 bits each
constexpr std::uint64_t kNearBytes = 768u << 10;     // of B that stay in the second-level cache
constexpr std::uint32_t kTileSumsBytes = 16u << 10;  // of a row of A, of those that meet a tile of B together
constexpr std::uint32_t kTileRowsOfA = 8;
constexpr std::size_t kMaxElements = 160;  // of a block of A that accumulators take

/// Adds blocks up, element by element. Shapes: a [count, kElements], sums [kMaxElements].
/// Values: kElements is a constant so that the loop becomes vectors.
template <std::size_t kElements>
void add_blocks(const std::uint16_t* a, std::size_t count, std::uint32_t* sums) {
  for (std::size_t x = 0; x < count; ++x) {
    for (std::size_t e = 0; e < kElements; ++e) sums[e] += a[x * kElements + e];
  }
}

}  // namespace

RowAccumulator::RowAccumulator(const PackedOperand& a, const PackedOperand& b, const PackedShape& shape,
                               const RowArithmetic& arithmetic, AccumulatorKernel kernel, std::uint32_t blocks_per_side,
                               const Space& space, const Run& run)
    : a_(a),
      b_(b),
      arithmetic_(arithmetic),
      kernel_(kernel),
      run_(run),
      blocks_per_side_(blocks_per_side),
      shape_(shape),
      least_pairs_(kernel.least_pairs * blocks_per_side) {
  if (!kernel_) return;
  const std::uint64_t most =
      std::min(kernel_.sums_bytes / sizeof(std::uint32_t), space.sums.size()) / kernel_.sum_elements;
  chunk_columns_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(most, blocks_per_side));
  const std::uint64_t elements = std::uint64_t{chunk_columns_} * kernel_.sum_elements;
  sums_ = space.sums.first(elements);
  cursors_ = space.cursors;
  all_sums_ = space.sums;
  const std::uint64_t sums_bytes = kernel_.sum_elements * sizeof(std::uint32_t);
  tile_columns_ = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(kTileSumsBytes / sums_bytes, 1, std::max<std::uint64_t>(1, chunk_columns_)));
  tile_rows_of_a_ = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
      space.sums.size() / (std::uint64_t{tile_columns_} * kernel_.sum_elements), 1, kTileRowsOfA));
  const double row_bytes = static_cast<double>(b.values.size() * sizeof(std::uint16_t)) / std::max(1u, b.num_rows());
  const double tile_row_bytes = std::max(1.0, row_bytes * tile_columns_ / blocks_per_side);
  tile_rows_ = static_cast<std::uint32_t>(std::min(1e9, kNearBytes / tile_row_bytes)) + 1;
}

bool RowAccumulator::has_kernel(std::uint32_t row) const {
  return kernel_ && (kernel_.add_wide != nullptr || !arithmetic_.of(row).wide);
}

bool RowAccumulator::takes(std::uint32_t row, std::uint64_t pairs) const {
  const std::uint64_t blocks = a_.row_ptr[row + 1] - a_.row_ptr[row];
  const std::uint64_t chunks = kernel_ ? (blocks_per_side_ - 1) / chunk_columns_ + 1 : 0;
  return has_kernel(row) && static_cast<double>(pairs) >= least_pairs_ && blocks <= cursors_.size() &&
         pairs >= kLeastRun * blocks * chunks;
}

bool RowAccumulator::takes_together(std::uint32_t first, std::uint32_t last,
                                    std::span<const std::uint64_t> row_pairs) const {
  if (last - first < 2 || a_.row_ptr[last] - a_.row_ptr[first] > cursors_.size()) return false;
  if (b_.values.size() * sizeof(std::uint16_t) <= kNearBytes) return false;
  for (std::uint32_t row = first; row < last; ++row) {
    if (row_pairs[row] < plan::kPairsOfFullRows * blocks_per_side_ || !has_kernel(row)) return false;
  }
  return true;
}

/// Whether a sum of the row may leave 32 bits: by the elements of A themselves if the bits seen do not tell.
AccumulatorKernel::Add RowAccumulator::choose_add(std::uint32_t row) const {
  const std::uint32_t begin = a_.row_ptr[row];
  const std::uint32_t end = a_.row_ptr[row + 1];
  const Arithmetic arithmetic = arithmetic_.of(row);
  if (arithmetic.wide) return kernel_.add_wide;
  if (end - begin <= arithmetic.flush_pairs) return kernel_.add;
  std::array<std::uint32_t, kMaxElements> sums{};
  const std::uint16_t* const blocks = a_.values.data() + begin * shape_.a_elements();
  const auto add = shape_.m == 4 ? add_blocks<16> : shape_.m <= 8 ? add_blocks<64> : add_blocks<kMaxElements>;
  add(blocks, end - begin, sums.data());
  std::uint64_t largest = 0;
  for (std::uint32_t r = 0; r < shape_.rows; ++r) {
    std::uint64_t sum = 0;
    for (std::uint32_t t = 0; t < shape_.inner; ++t) sum += sums[r * shape_.inner + t];
    largest = std::max(largest, sum);
  }
  return largest * b_.seen_bits <= kMaxVal ? kernel_.add : kernel_.add_clamped;
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

std::uint32_t RowAccumulator::next_of(std::uint32_t a_block, const std::uint32_t* cursor) const {
  if (a_block >= a_.cols.size() || a_.cols[a_block] == kNoRow) return 0;
  return cursor != nullptr ? *cursor : b_.row_ptr[a_.cols[a_block]];
}

std::uint32_t RowAccumulator::sum_columns(std::uint32_t row, const Columns& columns, std::uint32_t* cursors,
                                          AccumulatorKernel::Add add, std::uint32_t* sums) {
  const std::uint32_t begin = a_.row_ptr[row];
  const std::uint32_t row_end = a_.row_ptr[row + 1];
  const std::size_t stride = shape_.b_elements();
  const std::uint32_t* const row_sums = arithmetic_.a_row_sums.data();
  std::uint32_t x = columns.a_begin;
  for (; x < row_end; ++x) {
    const std::uint32_t soon = x + kRunsAhead;
    const std::uint32_t ahead = next_of(soon, soon < row_end ? cursors + (soon - begin) : nullptr);
    fetch(b_.cols.data() + ahead);
    fetch(b_.cols.data() + ahead + kLineElements);
    const std::uint32_t b_row = a_.cols[x];
    if (b_row == kNoRow) continue;
    if (b_row >= columns.b_row_end) break;
    const std::uint32_t at = cursors[x - begin];
    const AddRun run{.a = a_.values.data() + x * shape_.a_elements(),
                     .b = b_.values.data() + at * stride,
                     .cols = b_.cols.data() + at,
                     .count = b_.row_ptr[b_row + 1] - at,
                     .ahead = b_.values.data() + ahead * stride,
                     .a_row_sums = row_sums == nullptr ? nullptr : row_sums + x * std::uint64_t{shape_.rows}};
    cursors[x - begin] += add(run, columns.first, columns.end, sums);
  }
  return x;
}

void RowAccumulator::clear_if(bool was_used) {
  if (!was_used) return;
  std::fill(all_sums_.begin(), all_sums_.end(), 0);
}

void RowAccumulator::merge(std::uint32_t row, std::uint32_t col_begin, std::uint32_t col_end, bool was_used,
                           RowUnitOutput& out) {
  clear_if(was_used);
  const AccumulatorKernel::Add add = choose_add(row);
  start_cursors(row, col_begin, cursors_.data());
  for (std::uint32_t first = col_begin; first < col_end;) {
    run_.check_cancelled();
    const std::uint32_t end = std::min(col_end, first + chunk_columns_);
    sum_columns(row, {.first = first, .end = end, .a_begin = a_.row_ptr[row]}, cursors_.data(), add, sums_.data());
    std::uint32_t* sums = sums_.data();
    while (first < end) {
      const auto count = static_cast<std::uint32_t>(std::min<std::uint64_t>(out.room(), end - first));
      out.advance_to(kernel_.store(a_.rows[row], first, count, sums, out.position()));
      sums += std::size_t{count} * kernel_.sum_elements;
      first += count;
    }
  }
}

void RowAccumulator::merge_tiles(std::uint32_t first, std::span<RowState> rows) {
  const auto cursors_of = [&](std::uint32_t row) { return cursors_.data() + (a_.row_ptr[row] - a_.row_ptr[first]); };
  const auto sums_of = [&](std::uint32_t r) {
    return all_sums_.data() + std::size_t{r} * tile_columns_ * kernel_.sum_elements;
  };
  for (std::uint32_t r = 0; r < rows.size(); ++r) start_cursors(first + r, 0, cursors_of(first + r));
  for (std::uint32_t col = 0; col < blocks_per_side_; col += tile_columns_) {
    const std::uint32_t end = std::min(blocks_per_side_, col + tile_columns_);
    for (std::uint32_t r = 0; r < rows.size(); ++r) rows[r].next = a_.row_ptr[first + r];
    for (std::uint64_t b_row = 0; b_row < b_.num_rows(); b_row += tile_rows_) {
      run_.check_cancelled();
      const auto b_row_end = static_cast<std::uint32_t>(std::min<std::uint64_t>(b_row + tile_rows_, b_.num_rows()));
      for (std::uint32_t r = 0; r < rows.size(); ++r) {
        const Columns columns{.first = col, .end = end, .a_begin = rows[r].next, .b_row_end = b_row_end};
        rows[r].next = sum_columns(first + r, columns, cursors_of(first + r), rows[r].add, sums_of(r));
      }
    }
    for (std::uint32_t r = 0; r < rows.size(); ++r) {
      rows[r].end = kernel_.store(a_.rows[first + r], col, end - col, sums_of(r), rows[r].end);
    }
  }
}

void RowAccumulator::merge_together(std::uint32_t first, std::uint32_t last, bool was_used, RowUnitOutput& out) {
  clear_if(was_used);
  std::byte* const begin = out.position();
  const std::size_t row_bytes = std::size_t{blocks_per_side_} * output_record_bytes(shape_.m);
  std::vector<RowState> rows(last - first);
  for (std::uint32_t row = first; row < last; ++row) {
    rows[row - first] = {.add = choose_add(row), .end = begin + (row - first) * row_bytes};
  }
  for (std::uint32_t r = 0; r < rows.size(); r += tile_rows_of_a_) {
    merge_tiles(first + r, std::span(rows).subspan(r, std::min<std::size_t>(tile_rows_of_a_, rows.size() - r)));
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
