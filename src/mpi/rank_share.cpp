// Ranges of equal work, and the distinct columns of the rows of B that each row of A meets.
#include "mpi/rank_share.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "base/records/head.hpp"
#include "base/run/pieces.hpp"
#include "plan/panels/row_cut.hpp"

namespace spmm::mpi {
namespace {

constexpr std::uint64_t kWordBits = 64;

/// Adds to one of many sums that threads may share; returns what it was. Plain additions wait for memory together.
template <class T>
T add(T& sum, T value, const Run& run) {
  if (run.num_threads == 1) return std::exchange(sum, sum + value);
  return std::atomic_ref(sum).fetch_add(value, std::memory_order_relaxed);
}

/// On huge pages, which random additions need.
template <class T>
AlignedArray<T> zeros(std::uint64_t size) {
  AlignedArray<T> array(size);
  std::fill(array.begin(), array.end(), T{0});
  return array;
}

/// Calls visit(record, block index) for all records, from several threads.
template <class Visit>
void for_indices(const PlainOperand& operand, const Run& run, const Visit& visit) {
  const auto timing = run.clock.scope(Stage::read);
  const std::uint64_t record = input_record_bytes(operand.source.header().m);
  for_pieces(operand.source, 0, run, [&](const std::byte* records, std::uint64_t count, std::uint64_t first) {
    for (std::uint64_t x = 0; x < count; ++x) {
      BlockIndex at = read_index(records + x * record);
      if (operand.is_transposed) std::swap(at.i, at.j);
      visit(first + x, at);
    }
  });
}

/// The block columns of some block rows, in no order.
class Columns {
 public:
  Columns(std::span<const BlockIndex> all, RowRange rows, const Run& run)
      : first_row_(rows.first), row_ends_(zeros<std::uint32_t>(rows.end - rows.first + std::uint64_t{1})) {
    const auto for_wanted = [&](const auto& visit) {
      constexpr std::uint64_t kGrain = 1u << 16;
      run.parallel_for(all.size(), kGrain, [&](std::uint64_t begin, std::uint64_t end) {
        run.check_cancelled();
        for (const BlockIndex at : all.subspan(begin, end - begin)) {
          if (at.i >= rows.first && at.i < rows.end) visit(at.i - first_row_, at.j);
        }
      });
    };
    for_wanted([&](std::size_t row, std::uint32_t) { add(row_ends_[row + 1], 1u, run); });
    std::partial_sum(row_ends_.begin(), row_ends_.end(), row_ends_.begin());
    columns_ = AlignedArray<std::uint32_t>(row_ends_[row_ends_.size() - 1]);
    // Each row is filled from its begin, which moves to its end.
    for_wanted([&](std::size_t row, std::uint32_t column) { columns_[add(row_ends_[row], 1u, run)] = column; });
  }

  [[nodiscard]] std::span<const std::uint32_t> of(std::uint32_t row) const {
    const std::size_t x = row - first_row_;
    const std::uint32_t begin = x == 0 ? 0 : row_ends_[x - 1];
    return {columns_.data() + begin, row_ends_[x] - begin};
  }

 private:
  std::uint32_t first_row_;
  AlignedArray<std::uint32_t> row_ends_;  // there are fewer than 2^32 blocks
  AlignedArray<std::uint32_t> columns_;
};

/// The rows of B: their columns, and those as a bit for each block column if that takes no more memory.
class RowsOfB {
 public:
  RowsOfB(const PlainOperand& b, const Run& run) : num_words_(b.source.header().blocks_per_side() / kWordBits + 1) {
    const std::uint32_t num_rows = b.source.header().blocks_per_side();
    AlignedArray<BlockIndex> all(b.source.header().num_blocks);
    for_indices(b, run, [&](std::uint64_t record, BlockIndex at) { all[record] = at; });
    columns_.emplace(std::span(all.data(), all.size()), RowRange{.first = 0, .end = num_rows}, run);
    if (num_rows * num_words_ > all.size()) return;
    bits_.resize(num_rows * num_words_);
    for (std::uint32_t row = 0; row < num_rows; ++row) {
      for (const std::uint32_t j : columns_->of(row)) bits_[row * num_words_ + j / kWordBits] |= bit_of(j);
    }
  }

  [[nodiscard]] std::uint64_t num_words() const { return num_words_; }
  [[nodiscard]] std::uint64_t num_blocks(std::uint32_t row) const { return columns_->of(row).size(); }

  /// Distinct columns of these rows. Shapes: seen [num_words()], all zero before and afterwards; met: for its use.
  [[nodiscard]] std::uint64_t count_columns(std::span<const std::uint32_t> rows, std::span<std::uint64_t> seen,
                                            std::vector<std::uint32_t>& met) const {
    if (rows.size() == 1) return num_blocks(rows[0]);
    std::uint64_t count = 0;
    if (!bits_.empty()) {
      for (const std::uint32_t row : rows) {
        const std::uint64_t* const words = bits_.data() + row * num_words_;
        for (std::size_t w = 0; w < seen.size(); ++w) seen[w] |= words[w];
      }
      for (std::uint64_t& word : seen) count += static_cast<std::uint64_t>(std::popcount(std::exchange(word, 0)));
      return count;
    }
    met.clear();
    for (const std::uint32_t row : rows) met.insert(met.end(), columns_->of(row).begin(), columns_->of(row).end());
    for (const std::uint32_t j : met) {
      std::uint64_t& word = seen[j / kWordBits];
      count += (word & bit_of(j)) == 0 ? 1 : 0;
      word |= bit_of(j);
    }
    for (const std::uint32_t j : met) seen[j / kWordBits] = 0;
    return count;
  }

 private:
  static std::uint64_t bit_of(std::uint32_t column) { return std::uint64_t{1} << column % kWordBits; }

  std::uint64_t num_words_;
  std::optional<Columns> columns_;
  std::vector<std::uint64_t> bits_;  // [rows, words], or empty
};

std::uint64_t count_c_blocks(const Columns& a, const RowsOfB& b, RowRange rows, const Run& run) {
  constexpr std::uint64_t kRowsAtOnce = 16;
  std::atomic<std::uint64_t> next = rows.first;
  std::atomic<std::uint64_t> total = 0;
  run.run_workers(run.num_threads, [&](unsigned) {
    std::vector<std::uint64_t> seen(b.num_words());
    std::vector<std::uint32_t> met;
    for (std::uint64_t begin = next.fetch_add(kRowsAtOnce); begin < rows.end; begin = next.fetch_add(kRowsAtOnce)) {
      for (std::uint64_t row = begin; row < std::min<std::uint64_t>(begin + kRowsAtOnce, rows.end); ++row) {
        run.check_cancelled();
        total += b.count_columns(a.of(static_cast<std::uint32_t>(row)), seen, met);
      }
    }
  });
  return total;
}

}  // namespace

RankShare share_of_rank(const PlainOperand& a, const PlainOperand& b, RowRange rows, std::uint32_t rank,
                        std::uint32_t num_ranks, std::uint64_t limit_bytes, const Run& run) {
  constexpr std::uint64_t kMostRuns = 1u << 20;
  constexpr std::uint64_t kMostRowsPerBlock = 16;
  constexpr std::uint64_t kBlockBytes = sizeof(BlockIndex) + sizeof(std::uint32_t);
  const std::uint64_t num_rows = a.source.header().blocks_per_side();
  const std::uint64_t num_blocks = std::uint64_t{a.source.header().num_blocks} + b.source.header().num_blocks;
  const std::uint64_t need_bytes = num_blocks * kBlockBytes + 2 * num_rows * sizeof(std::uint64_t);
  const bool has_many_rows = num_rows > kMostRuns + kMostRowsPerBlock * num_blocks;  // counting them would take longest
  const bool fits = !has_many_rows && need_bytes <= limit_bytes / 2;
  unsigned shift = 0;  // rows are weighed in runs of 2^shift
  while ((num_rows >> shift) > std::clamp<std::uint64_t>(limit_bytes / 10 / sizeof(std::uint64_t), 1, kMostRuns))
    ++shift;
  std::optional<RowsOfB> rows_of_b;
  if (fits) rows_of_b.emplace(b, run);
  AlignedArray<BlockIndex> all(fits ? a.source.header().num_blocks : 0);
  const auto weights = zeros<std::uint64_t>((num_rows >> shift) + 1);
  for_indices(a, run, [&](std::uint64_t record, BlockIndex at) {
    if (fits) all[record] = at;
    if (at.i < rows.first || at.i >= rows.end) return;
    // A block of A is read and sorted whether or not it meets any of B.
    add(weights[at.i >> shift], 1 + (fits ? rows_of_b->num_blocks(at.j) : 0), run);
  });
  const std::vector<std::uint32_t> begins =
      plan::cut_by_weight({weights.data(), weights.size()}, shift, rows, num_ranks);
  RankShare share{.rows = {.first = begins[rank], .end = begins[rank + 1]}};
  if (share.rows.first == share.rows.end) share.num_blocks = 0;
  if (!fits || share.num_blocks) return share;
  share.num_blocks = count_c_blocks(Columns({all.data(), all.size()}, share.rows, run), *rows_of_b, share.rows, run);
  return share;
}

}  // namespace spmm::mpi
