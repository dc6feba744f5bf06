#include "cpu/rows/accumulator.hpp"

#include <algorithm>
#include <array>

#include "cpu/rows/fetch_ahead.hpp"
#include "cpu/simd/layout.hpp"
#include "spmm/saturate.hpp"

namespace spmm::cpu {
namespace {

constexpr std::uint32_t kRunsAhead = 2;    // blocks of A: their blocks of B are on the way
constexpr std::uint64_t kLeastRun = 2;     // pairs of a block of A in a chunk of columns
constexpr std::size_t kLineElements = 16;  // of a cache line, 32 bits each

/// Adds blocks up, element by element. Shapes: a [count, kElements], sums [kAccumulatorElements].
/// Values: kElements is a constant so that the loop becomes vectors.
template <std::size_t kElements>
void add_blocks(const std::uint16_t* a, std::size_t count, std::uint32_t* sums) {
  for (std::size_t x = 0; x < count; ++x) {
    for (std::size_t e = 0; e < kElements; ++e) sums[e] += a[x * kElements + e];
  }
}

}  // namespace

RowAccumulator::RowAccumulator(const RowProduct& product, const MergeSizes& sizes, std::span<std::uint32_t> cursors,
                               const Run& run)
    : a_(product.a),
      b_(product.b),
      shape_(product.operands.shape),
      arithmetic_(product.arithmetic),
      kernel_(product.accumulator),
      blocks_per_side_(product.blocks_per_side),
      run_(run),
      cursors_(cursors) {
  if (!kernel_) return;
  const std::uint64_t most = std::min(kernel_.sums_bytes / sizeof(std::uint32_t), sizes.sums) / kernel_.sum_elements;
  chunk_columns_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(most, blocks_per_side_));
  sums_ = AlignedArray<std::uint32_t>(std::uint64_t{chunk_columns_} * kernel_.sum_elements);
  std::fill(sums_.begin(), sums_.end(), 0);
}

bool RowAccumulator::takes(std::uint32_t row, std::uint64_t pairs) const {
  if (!kernel_ || (kernel_.add_wide == nullptr && arithmetic_.of(row).wide)) return false;
  const std::uint64_t blocks = a_.row_ptr[row + 1] - a_.row_ptr[row];
  const std::uint64_t chunks = (blocks_per_side_ - 1) / chunk_columns_ + 1;
  return static_cast<double>(pairs) >= kernel_.least_pairs * blocks_per_side_ && blocks <= cursors_.size() &&
         pairs >= kLeastRun * blocks * chunks;
}

/// Whether a sum of the row may leave 32 bits: by the elements of A themselves if the bits seen do not tell.
AccumulatorKernel::Add RowAccumulator::choose_add(std::uint32_t row) const {
  const std::uint32_t begin = a_.row_ptr[row];
  const std::uint32_t end = a_.row_ptr[row + 1];
  const Arithmetic arithmetic = arithmetic_.of(row);
  if (arithmetic.wide) return kernel_.add_wide;
  if (end - begin <= arithmetic.flush_pairs) return kernel_.add;
  std::array<std::uint32_t, kAccumulatorElements> sums{};
  const std::uint16_t* const blocks = a_.values.data() + begin * shape_.a_elements();
  const auto add = shape_.m == 4 ? add_blocks<16> : add_blocks<kAccumulatorElements>;
  add(blocks, end - begin, sums.data());
  std::uint64_t largest = 0;
  for (std::uint32_t r = 0; r < shape_.rows; ++r) {
    std::uint64_t sum = 0;
    for (std::uint32_t t = 0; t < shape_.inner; ++t) sum += sums[r * shape_.inner + t];
    largest = std::max(largest, sum);
  }
  return largest * b_.seen_bits <= kMaxVal ? kernel_.add : kernel_.add_clamped;
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

std::uint32_t RowAccumulator::next_of(std::uint32_t a_block, const std::uint32_t* cursor) const {
  if (a_block >= a_.cols.size() || a_.cols[a_block] == kNoRow) return 0;
  return cursor != nullptr ? *cursor : b_.row_ptr[a_.cols[a_block]];
}

void RowAccumulator::sum_columns(std::uint32_t row, std::uint32_t first, std::uint32_t end,
                                 AccumulatorKernel::Add add) {
  const std::uint32_t begin = a_.row_ptr[row];
  const std::uint32_t row_end = a_.row_ptr[row + 1];
  const std::size_t stride = shape_.b_elements();
  const std::uint32_t* const row_sums = arithmetic_.a_row_sums.data();
  for (std::uint32_t x = begin; x < row_end; ++x) {
    const std::uint32_t soon = x + kRunsAhead;
    const std::uint32_t ahead = next_of(soon, soon < row_end ? &cursors_[soon - begin] : nullptr);
    fetch(b_.cols.data() + ahead);
    fetch(b_.cols.data() + ahead + kLineElements);
    const std::uint32_t b_row = a_.cols[x];
    if (b_row == kNoRow) continue;
    const std::uint32_t at = cursors_[x - begin];
    const AddRun run{.a = a_.values.data() + x * shape_.a_elements(),
                     .b = b_.values.data() + at * stride,
                     .cols = b_.cols.data() + at,
                     .count = b_.row_ptr[b_row + 1] - at,
                     .ahead = b_.values.data() + ahead * stride,
                     .a_row_sums = row_sums == nullptr ? nullptr : row_sums + x * std::uint64_t{shape_.rows}};
    cursors_[x - begin] += add(run, first, end, sums_.data());
  }
}

void RowAccumulator::merge(std::uint32_t row, std::uint32_t col_begin, std::uint32_t col_end, RecordWriter& out) {
  const AccumulatorKernel::Add add = choose_add(row);
  start_cursors(row, col_begin);
  for (std::uint32_t first = col_begin; first < col_end;) {
    run_.check_cancelled();
    const std::uint32_t end = std::min(col_end, first + chunk_columns_);
    sum_columns(row, first, end, add);
    std::uint32_t* sums = sums_.data();
    while (first < end) {
      const auto count = static_cast<std::uint32_t>(std::min<std::uint64_t>(out.room(), end - first));
      out.advance_to(kernel_.store(a_.rows[row], first, count, sums, out.position()));
      sums += std::size_t{count} * kernel_.sum_elements;
      first += count;
    }
  }
}

}  // namespace spmm::cpu
