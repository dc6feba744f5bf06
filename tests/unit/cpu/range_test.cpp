// Ranges of a product: what they cover, hold, and how evenly long rows are cut.
#include "cpu/rows/range.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "support/catch.hpp"

namespace spmm::test {
namespace {

std::vector<Range> cut(const RowCounts& counts, const RangeLimits& limits) {
  std::vector<Range> ranges;
  RangeCutter cutter(counts);
  for (Range range; cutter.next(range, limits);) ranges.push_back(range);
  return ranges;
}

std::uint64_t blocks_of(const RowCounts& counts, std::uint32_t row) {
  return std::min<std::uint64_t>(counts.pairs[row], counts.num_columns);
}

/// Whether ranges ascend, cover every row with a pair and all of its columns, and have columns of one row or whole
/// rows.
void check_cover(const std::vector<Range>& ranges, const RowCounts& counts) {
  std::uint32_t row = 0;
  std::uint32_t column = 0;
  bool is_right = true;
  for (const Range& range : ranges) {
    while (column == 0 && row < counts.pairs.size() && counts.pairs[row] == 0) ++row;
    is_right &= range.row_begin == row && range.column_begin == column && range.column_begin < range.column_end;
    is_right &= range.column_end == counts.num_columns || range.column_end % RangeCutter::kColumnGrain == 0;
    is_right &= range.row_end == row + 1 || (range.column_begin == 0 && range.column_end == counts.num_columns);
    column = range.column_end == counts.num_columns ? 0 : range.column_end;
    if (column == 0) row = range.row_end;
  }
  CHECK(is_right);
  CHECK(column == 0);
  CHECK(std::all_of(counts.pairs.begin() + row, counts.pairs.end(), [](std::uint64_t pairs) { return pairs == 0; }));
}

/// Whether joined rows keep the limits, and the row after them would pass one.
void check_joined(const std::vector<Range>& ranges, const RowCounts& counts, const RangeLimits& limits) {
  for (const Range& range : ranges) {
    std::uint64_t pairs = 0;
    std::uint64_t blocks = 0;
    for (std::uint32_t row = range.row_begin; row < range.row_end; ++row) {
      pairs += counts.pairs[row];
      blocks += blocks_of(counts, row);
    }
    const bool is_part = range.column_begin != 0 || range.column_end != counts.num_columns;
    CHECK((range.row_end == range.row_begin + 1 || (pairs <= limits.pairs && blocks <= limits.blocks)));
    if (is_part || range.row_end == counts.pairs.size()) continue;
    const std::uint32_t next = range.row_end;
    CHECK((pairs + counts.pairs[next] > limits.pairs || blocks + blocks_of(counts, next) > limits.blocks));
  }
}

}  // namespace

TEST_CASE("ranges cover a product in order, and keep their limits") {
  std::mt19937_64 random(1);
  std::vector<std::vector<std::uint64_t>> cases = {
      {}, {0, 0, 0}, {5}, {0, 1, 0, 2, 0}, {1'000'000, 3, 0, 900'000, 1}, std::vector<std::uint64_t>(5000, 17)};
  for (int x = 0; x < 5; ++x) {
    std::vector<std::uint64_t>& pairs = cases.emplace_back(random() % 300);
    for (std::uint64_t& of_row : pairs) of_row = random() % 4 == 0 ? 0 : random() >> (40 + random() % 24);
  }
  for (const auto& pairs : cases) {
    for (const std::uint32_t num_columns : {1u, 64u, 1000u, 0xFFFF'FFFFu}) {
      for (const std::uint64_t blocks : {1u, 100u, 1'000'000u}) {
        INFO(pairs.size() << " rows, " << num_columns << " columns, " << blocks << " blocks");
        const RowCounts counts{.pairs = pairs, .num_columns = num_columns};
        const RangeLimits limits{.pairs = 10'000, .blocks = blocks, .part_blocks = blocks, .least_part_pairs = 500};
        const std::vector<Range> ranges = cut(counts, limits);
        check_cover(ranges, counts);
        check_joined(ranges, counts, limits);
      }
    }
  }
}

TEST_CASE("a long row is cut into ranges of about equal work where columns of B differ") {
  constexpr std::uint32_t kColumns = 8000;
  std::vector<std::uint32_t> b_columns;  // 9 of 10 blocks in the first 80 columns
  for (std::uint32_t x = 0; x < 100'000; ++x) b_columns.push_back(x % 10 == 0 ? x % kColumns : x % 80);
  const std::vector<std::uint64_t> pairs = {1'000'000};
  const RowCounts counts{.pairs = pairs, .num_columns = kColumns, .b_columns = b_columns};
  const std::vector<Range> ranges =
      cut(counts, {.pairs = 10'000, .blocks = 1'000'000, .part_blocks = 1'000'000, .least_part_pairs = 1000});
  check_cover(ranges, counts);
  CHECK(ranges.size() > 20);
  for (const Range& range : ranges) {
    const auto blocks = std::count_if(b_columns.begin(), b_columns.end(), [&](std::uint32_t column) {
      return column >= range.column_begin && column < range.column_end;
    });
    CHECK(static_cast<std::size_t>(blocks) < b_columns.size() / 8);  // of equal width: 0.9
  }
}

TEST_CASE("of a triangle a long row is cut where its columns begin, and not at all if its largest elements are kept") {
  constexpr std::uint32_t kFirst = 6000;
  const std::vector<std::uint64_t> pairs = {1'000'000};
  const std::vector<std::uint32_t> first = {kFirst};
  RowCounts counts{.pairs = pairs, .num_columns = 8000, .first_columns = first};
  const RangeLimits limits{.pairs = 10'000, .blocks = 1'000'000, .part_blocks = 1'000'000, .least_part_pairs = 1000};
  const std::vector<Range> ranges = cut(counts, limits);
  check_cover(ranges, counts);
  CHECK(ranges.size() > 50);
  for (std::size_t x = 1; x < ranges.size(); ++x) {
    CHECK(ranges[x].column_begin > kFirst);
    CHECK(ranges[x].column_end - ranges[x].column_begin < 100);
  }
  counts.keeps_rows_whole = true;
  CHECK(cut(counts, limits).size() == 1);
}

}  // namespace spmm::test
