#include "cpu/output/ranges.hpp"

#include <algorithm>
#include <map>
#include <span>

#include "plan/panels/part_cut.hpp"

namespace spmm::cpu {
namespace {

constexpr std::uint32_t kNumSamples = 1024;  // the heaviest rows among them, if they are heavier than that many others

/// Counts C blocks of single rows. Memory: 1 MB of marks, or 2 MB of columns.
class RowCounter {
 public:
  explicit RowCounter(const Prepared& product) : product_(product) {
    if (product.blocks_per_side <= kMaxMarks) marks_.resize(plan::mark_words(product.blocks_per_side));
  }

  /// Pairs that may be examined in all: some 10 ms.
  [[nodiscard]] std::uint64_t budget() const { return marks_.empty() ? kMaxListed : kMaxMarked; }

  std::uint32_t count(std::uint32_t row) {
    std::uint32_t num_blocks = 0;
    if (marks_.empty()) {
      list_.clear();
      for_columns(row, [&](std::uint32_t col) { list_.push_back(col); });
      std::sort(list_.begin(), list_.end());
      return static_cast<std::uint32_t>(std::unique(list_.begin(), list_.end()) - list_.begin());
    }
    for_columns(row, [&](std::uint32_t col) {
      const std::uint64_t bit = std::uint64_t{1} << (col % 64);
      num_blocks += (marks_[col / 64] & bit) == 0 ? 1 : 0;
      marks_[col / 64] |= bit;
    });
    for_columns(row, [&](std::uint32_t col) { marks_[col / 64] = 0; });
    return num_blocks;
  }

 private:
  static constexpr std::uint64_t kMaxMarks = 1u << 23;
  static constexpr std::uint64_t kMaxMarked = 1u << 22;
  static constexpr std::uint64_t kMaxListed = 1u << 19;

  template <class Visit>
  void for_columns(std::uint32_t row, const Visit& visit) const {
    const PackedOperand& a = product_.a;
    const PackedOperand& b = product_.b;
    for (std::uint32_t x = a.row_ptr[row]; x < a.row_ptr[row + 1]; ++x) {
      if (a.b_rows()[x] == kNoRow) continue;
      for (std::uint32_t y = b.row_ptr[a.b_rows()[x]]; y < b.row_ptr[a.b_rows()[x] + 1]; ++y) visit(b.cols[y]);
    }
  }

  const Prepared& product_;
  std::vector<std::uint64_t> marks_;
  std::vector<std::uint32_t> list_;
};

/// Rows at evenly spaced places of the expected result; a row that takes several places is there once for each.
std::vector<std::uint32_t> sample_rows(const Prepared& product, const plan::ExpectedBlocks& expected) {
  const auto weight = [&](std::uint32_t row) { return expected(static_cast<double>(product.row_pairs[row])); };
  double total = 0;
  for (std::uint32_t row = 0; row < product.a.num_rows(); ++row) total += weight(row);
  std::vector<std::uint32_t> rows;
  double before = 0;
  for (std::uint32_t row = 0; row < product.a.num_rows(); ++row) {
    before += weight(row);
    while (rows.size() < kNumSamples && (static_cast<double>(rows.size()) + 0.5) * total < before * kNumSamples) {
      rows.push_back(row);
    }
  }
  return rows;
}

/// Counts sampled rows, in scattered order as far as the budget goes; returns the counts of those that are heavy.
std::map<std::uint32_t, double> count_samples(const Prepared& product, plan::ExpectedBlocks& expected) {
  constexpr std::size_t kStep = 389;  // has no factor in common with kNumSamples
  const std::vector<std::uint32_t> rows = sample_rows(product, expected);
  RowCounter counter(product);
  std::uint64_t left = counter.budget();
  std::vector<plan::CountedRow> counted;
  std::map<std::uint32_t, double> exact;
  for (std::size_t x = 0; x < rows.size(); ++x) {
    const std::uint32_t row = rows[x * kStep % rows.size()];
    const std::uint64_t pairs = product.row_pairs[row];
    if (!exact.contains(row)) {
      if (pairs > left) continue;
      left -= pairs;
      exact[row] = counter.count(row);
    }
    counted.push_back({.pairs = static_cast<double>(pairs), .num_blocks = exact[row]});
  }
  expected.correct(counted);
  return exact;
}

}  // namespace

std::vector<std::uint32_t> cut_ranges(const Prepared& product, Sink& sink) {
  const std::uint32_t num_rows = product.a.num_rows();
  if (sink.num_ranges() == 1) return {0, num_rows};
  const std::span<const std::uint32_t> columns(product.b.cols.data(), product.b.cols.size());
  plan::ExpectedBlocks expected(
      plan::sampled_spread(plan::sample_of(columns), columns.size(), product.b.num_rows(), product.blocks_per_side));
  const std::map<std::uint32_t, double> exact = count_samples(product, expected);
  const auto weight = [&](std::uint32_t row) {
    const auto found = exact.find(row);
    return found != exact.end() ? found->second : expected(static_cast<double>(product.row_pairs[row]));
  };
  std::vector<std::uint32_t> borders = plan::cut_parts(num_rows, weight, sink.num_ranges());
  sink.set_ranges(plan::ranges_of(borders, {product.a.rows.data(), num_rows}, product.blocks_per_side));
  return borders;
}

}  // namespace spmm::cpu
