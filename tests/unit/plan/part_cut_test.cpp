// Where a result is cut into parts.
#include "plan/panels/part_cut.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "base/records/splitting_sink.hpp"
#include "engine/output_checks.hpp"
#include "plan/inputs/statistics.hpp"
#include "spmm/engine.hpp"
#include "spmm/error.hpp"
#include "spmm/multiply.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/memory_stream.hpp"
#include "support/oracle.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;

std::vector<std::uint32_t> cut(const std::vector<double>& weights, std::uint32_t num_parts) {
  return plan::cut_parts(
      static_cast<std::uint32_t>(weights.size()), [&](std::uint32_t row) { return weights[row]; }, num_parts);
}

using Borders = std::vector<std::uint32_t>;

TEST_CASE("parts: borders lie where the shares end") {
  CHECK(cut({}, 1) == Borders{0, 0});
  CHECK(cut({}, 3) == Borders{0, 0, 0, 0});
  CHECK(cut({1, 1, 1, 1}, 2) == Borders{0, 2, 4});
  CHECK(cut({1, 1, 1, 1}, 4) == Borders{0, 1, 2, 3, 4});
  CHECK(cut({1, 1, 1, 1, 1}, 1) == Borders{0, 5});
  CHECK(cut({0, 0, 0}, 2).back() == 3);
  CHECK(cut({1, 1}, 4).size() == 5);
  // A long row is a part; the others share the rest.
  CHECK(cut({100, 1, 1, 1, 1}, 3) == Borders{0, 1, 3, 5});
  CHECK(cut({1, 1, 1, 1, 100}, 3) == Borders{0, 4, 5, 5});
  CHECK(cut({3, 1, 0, 0, 4}, 2) == Borders{0, 4, 5});
}

TEST_CASE("parts: whatever the weights, parts share all rows, and each differs from its share by half a row at most") {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<double> weights(random() % 2000 + 1);
    const double power = round % 5;
    for (double& weight : weights) weight = std::pow(static_cast<double>(random() % 1000), power);
    const auto num_parts = static_cast<std::uint32_t>(random() % 16 + 1);
    const Borders borders = cut(weights, num_parts);
    REQUIRE(borders.size() == num_parts + 1);
    CHECK(std::is_sorted(borders.begin(), borders.end()));
    CHECK(borders.front() == 0);
    CHECK(borders.back() == weights.size());
    const double heaviest = *std::max_element(weights.begin(), weights.end());
    const double share = std::accumulate(weights.begin(), weights.end(), 0.0) / num_parts;
    if (heaviest > share / 4) continue;
    for (std::uint32_t part = 0; part < num_parts; ++part) {
      const double filled = std::accumulate(weights.begin() + borders[part], weights.begin() + borders[part + 1], 0.0);
      CHECK(std::abs(filled - share) <= heaviest * 1.5);
    }
  }
}

TEST_CASE("parts: ranges share all block rows, also those without blocks") {
  const std::vector<std::uint32_t> rows = {3, 5, 9};
  CHECK(plan::ranges_of(Borders{0, 1, 2, 3}, rows, 20) == std::vector<BlockRows>{{0, 5}, {5, 9}, {9, 20}});
  CHECK(plan::ranges_of(Borders{0, 0, 3, 3}, rows, 20) == std::vector<BlockRows>{{0, 0}, {0, 20}, {20, 20}});
  CHECK(plan::ranges_of(Borders{0, 0, 0}, {}, 7) == std::vector<BlockRows>{{0, 7}, {7, 7}});
}

TEST_CASE("parts: C blocks of a row are expected from its pairs") {
  const plan::ExpectedBlocks even(plan::even_spread(1000, 1000, 1000));
  CHECK(even(0) == 0);
  CHECK(even(1) == Approx(1).margin(0.01));
  CHECK(even(1000) == Approx(1000 * (1 - std::exp(-1.0))).epsilon(0.01));
  CHECK(even(1e6) == Approx(1000).epsilon(0.01));
  // Full rows of B: the first one fills every column.
  const plan::ExpectedBlocks full(plan::even_spread(64 * 64, 64, 64));
  CHECK(full(64) == Approx(64).epsilon(0.03));
  CHECK(full(640) == Approx(64).epsilon(0.03));
  const plan::ExpectedBlocks none(plan::even_spread(0, 0, 10));
  CHECK(none(5) == 0);
}

TEST_CASE("parts: columns that a sample holds rarely are taken for one of the many") {
  const plan::ColumnSpread rare = plan::sampled_spread({1, 1, 1, 2, 2, 5, 8, 9}, 8000, 1000, 1000);
  REQUIRE(rare.groups.size() == 1);
  CHECK(rare.groups[0].num_columns == 1000);
  CHECK(rare.groups[0].share == plan::even_spread(8000, 1000, 1000).groups[0].share);
  const plan::ColumnSpread often = plan::sampled_spread({1, 1, 1, 1, 2, 2, 2, 9}, 8000, 1000, 1000);
  REQUIRE(often.groups.size() == 2);
  CHECK(often.groups[0].num_columns == 1);
  CHECK(often.groups[0].share == 1);  // half of the blocks: four for each row
  CHECK(often.groups[1].num_columns == 999);
}

TEST_CASE("parts: a sample is spread over all columns given") {
  std::vector<std::uint32_t> columns(3u << 16);
  std::iota(columns.begin(), columns.end(), 0u);
  const std::vector<std::uint32_t> sample = plan::sample_of(columns);
  REQUIRE(sample.size() == 1u << 16);
  for (std::uint32_t x = 0; x < sample.size(); ++x) REQUIRE(sample[x] == 3 * x);
  CHECK(plan::sample_of(std::vector<std::uint32_t>{7, 4, 7}) == std::vector<std::uint32_t>{7, 4, 7});
}

TEST_CASE("parts: as many may be asked for as an index names, and no more") {
  const MatrixHeader header{.n = 8, .m = 1, .num_blocks = 8};
  ProductOptions options;
  options.num_parts = plan::kMaxParts;
  const plan::Statistics expected = plan::expected_statistics(header, header);
  CHECK(wanted_parts(expected, options) == plan::kMaxParts);
  options.num_parts = plan::kMaxParts + 1;
  CHECK_THROWS_AS(wanted_parts(expected, options), UsageError);
}

TEST_CASE("parts: as many as pay, and enough for the blocks of a file") {
  CHECK(plan::automatic_parts(0, 264, 16) == 1);
  CHECK(plan::automatic_parts(1000, 264, 16) == 1);
  CHECK(plan::automatic_parts(2e6, 264, 16) == 5);
  CHECK(plan::automatic_parts(1e8, 264, 16) == 16);
  CHECK(plan::automatic_parts(1e8, 264, 2) == 2);
  CHECK(plan::automatic_parts(1e8, 264, 64) == 16);
  CHECK(plan::automatic_parts(1e11, 12, 2) == 29);
  CHECK(plan::automatic_parts(1e18, 12, 2) == plan::kMaxParts);
}

/// A sink of several ranges that counts what each gets and keeps the order of calls.
class RangedSink : public MemorySink {
 public:
  RangedSink(const MatrixHeader& header, std::uint32_t num_ranges)
      : MemorySink(header), m_(header.m), sizes_(num_ranges) {}

  [[nodiscard]] std::uint32_t num_ranges() const override { return static_cast<std::uint32_t>(sizes_.size()); }
  void set_ranges(std::span<const BlockRows> ranges) override { ranges_.assign(ranges.begin(), ranges.end()); }
  void append_to(std::uint32_t range, std::span<const std::byte> records, std::function<void()> release) override {
    const std::uint64_t record = output_record_bytes(m_);
    BlockIndex before{};
    for (std::size_t at = 0; at < records.size(); at += record) {
      BlockIndex here;
      std::memcpy(&here, records.data() + at, kIndexBytes);
      in_place_ &= here.i >= ranges_.at(range).begin && here.i < ranges_.at(range).end;
      const auto last = last_.find(range);
      in_place_ &= last == last_.end() || last->second < here;
      last_[range] = before = here;
    }
    sizes_[range] += records.size() / record;
    order_.push_back(range);
    append(records, std::move(release));
  }

  [[nodiscard]] const std::vector<BlockRows>& ranges() const { return ranges_; }
  [[nodiscard]] const std::vector<std::uint64_t>& sizes() const { return sizes_; }
  [[nodiscard]] const std::vector<std::uint32_t>& order() const { return order_; }
  [[nodiscard]] bool in_place() const { return in_place_; }

 private:
  std::uint32_t m_;
  std::vector<std::uint64_t> sizes_;
  std::vector<BlockRows> ranges_;
  std::vector<std::uint32_t> order_;
  std::map<std::uint32_t, BlockIndex> last_;
  bool in_place_ = true;
};

/// Blocks of block row r, and of block column r, fall with 1 / r.
BlockMatrix skewed_matrix(std::uint32_t nb, std::uint32_t num_blocks, std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&] {
    const double u = static_cast<double>(random() % 1'000'000 + 1) * 1e-6;
    return static_cast<std::uint32_t>(std::pow(double(nb), u)) - 1;
  };
  std::set<std::pair<std::uint32_t, std::uint32_t>> places;
  while (places.size() < num_blocks) places.insert({std::min(pick(), nb - 1), std::min(pick(), nb - 1)});
  BlockMatrix matrix{.n = nb, .m = 1, .index = {}, .values = {}};
  for (const auto& [i, j] : places) {
    matrix.index.push_back({.i = i, .j = j});
    matrix.values.push_back(1);
  }
  return matrix;
}

void check_even(const BlockMatrix& a, const BlockMatrix& b, const ProductOptions& options, std::uint32_t num_parts) {
  RangedSink sink(a.header(), num_parts);
  EngineOptions engine_options;
  engine_options.num_threads = 2;
  Engine(engine_options).multiply(MemorySource(a), MemorySource(b), sink, options);
  CHECK(sink.in_place());
  const auto [least, most] = std::minmax_element(sink.sizes().begin(), sink.sizes().end());
  INFO(*least << " to " << *most << " blocks");
  CHECK(static_cast<double>(*most) < 1.1 * static_cast<double>(*least));
  CHECK(sink.ranges().front().begin == 0);
  CHECK(sink.ranges().back().end == a.header().blocks_per_side());
}

TEST_CASE("parts: sizes agree within 10 % for even and skewed operands, with every kernel") {
  for (const KernelInfo& kernel : kernel_names()) {
    if (kernel.backend != Backend::cpu) continue;
    INFO(kernel.name);
    ProductOptions options;
    options.backend = Backend::cpu;
    options.kernel = kernel.name;
    for (const std::uint32_t num_parts : {2u, 4u, 8u}) {
      INFO(num_parts << " parts");
      check_even(random_matrix(2000, 1, 15'000, 9, 1), random_matrix(2000, 1, 15'000, 9, 2), options, num_parts);
    }
  }
}

TEST_CASE("parts: sizes agree within 10 % for skewed operands") {
  ProductOptions options;
  options.backend = Backend::cpu;
  options.kernel = "row-merge";
  for (const std::uint32_t num_parts : {2u, 4u, 8u}) {  // the longest row is 8 % of an eighth
    INFO(num_parts << " parts");
    check_even(skewed_matrix(6000, 60'000, 3), random_matrix(6000, 1, 60'000, 9, 4), options, num_parts);
    check_even(random_matrix(6000, 1, 60'000, 9, 5), skewed_matrix(6000, 60'000, 6), options, num_parts);
    check_even(skewed_matrix(6000, 60'000, 7), skewed_matrix(6000, 60'000, 8), options, num_parts);
  }
}

TEST_CASE("parts: all ranges grow at once") {
  const BlockMatrix a = random_matrix(4000, 1, 60'000, 9, 1);
  RangedSink sink(a.header(), 4);
  ProductOptions options;
  options.backend = Backend::cpu;
  EngineOptions engine_options;
  engine_options.num_threads = 2;
  Engine(engine_options).multiply(MemorySource(a), MemorySource(a), sink, options);
  const std::vector<std::uint32_t>& order = sink.order();
  REQUIRE(order.size() > 16);
  for (std::size_t x = 0; x + 4 <= order.size() / 2; ++x) {
    CHECK(std::set<std::uint32_t>(order.begin() + std::ptrdiff_t(x), order.begin() + std::ptrdiff_t(x) + 4).size() > 1);
  }
}

TEST_CASE("parts: records in the order of the whole are split at the borders, and released once") {
  std::string records;
  const auto add = [&](std::uint32_t i, std::uint32_t j) {
    const std::array<std::uint32_t, 3> record = {i, j, 5};
    records.append(reinterpret_cast<const char*>(record.data()), sizeof record);
  };
  for (const std::uint32_t i : {0u, 1u, 1u, 4u, 8u, 9u}) add(i, static_cast<std::uint32_t>(records.size()));
  RangedSink inner({.n = 10, .m = 1}, 4);
  int released = 0;
  {
    SplittingSink sink(inner, {{0, 2}, {2, 3}, {3, 8}, {8, 10}}, 1);
    const auto bytes = std::as_bytes(std::span(records));
    sink.append(bytes.first(5 * 12), [&] { ++released; });
    sink.append(bytes.subspan(5 * 12), [&] { ++released; });
    sink.append({}, [&] { ++released; });
  }
  CHECK(released == 3);
  CHECK(inner.in_place());
  CHECK(inner.sizes() == std::vector<std::uint64_t>{3, 0, 1, 2});
  CHECK(inner.product().index.size() == 6);
}

}  // namespace
