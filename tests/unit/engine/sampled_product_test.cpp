// Pairs and C blocks that are estimated from indices, against those counted one by one.
#include "engine/sampled_product.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/records/head.hpp"
#include "engine/backend_choice.hpp"
#include "plan/decide.hpp"
#include "support/catch.hpp"
#include "unit/plan/plan_support.hpp"

namespace {

using namespace spmm;

using Cell = std::pair<std::uint32_t, std::uint32_t>;

/// Blocks without values, in the order of a file: shuffled, or by rows.
class Cells final : public Source {
 public:
  Cells(std::uint32_t nb, std::uint32_t m, const std::set<Cell>& cells, std::uint64_t seed = 0)
      : header_{.n = nb * m, .m = m, .num_blocks = static_cast<std::uint32_t>(cells.size())},
        cells_(cells.begin(), cells.end()) {
    std::mt19937_64 random(seed);
    if (seed != 0) std::shuffle(cells_.begin(), cells_.end(), random);
  }
  [[nodiscard]] const MatrixHeader& header() const override { return header_; }
  [[nodiscard]] const std::string& name() const override { return name_; }
  void check_unchanged() const override {}
  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override {
    const std::uint64_t record = input_record_bytes(header_.m);
    num_read_ += count;
    for (std::uint64_t x = 0; x < count; ++x) {
      const auto& [i, j] = cells_[first + x];
      write_index(dst + x * record, BlockIndex{.i = i, .j = j});
    }
  }
  [[nodiscard]] const std::vector<Cell>& cells() const { return cells_; }
  [[nodiscard]] std::uint64_t num_read() const { return num_read_; }

 private:
  MatrixHeader header_;
  std::vector<Cell> cells_;
  std::string name_ = "cells";
  mutable std::atomic<std::uint64_t> num_read_{0};
};

/// Elements anywhere, none of which is stored.
class Spread final : public Source {
 public:
  Spread(std::uint32_t n, std::uint32_t num_blocks, std::uint64_t seed)
      : header_{.n = n, .m = 1, .num_blocks = num_blocks}, seed_(seed << 29) {}
  [[nodiscard]] const MatrixHeader& header() const override { return header_; }
  [[nodiscard]] const std::string& name() const override { return name_; }
  void check_unchanged() const override {}
  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override {
    num_read_ += count;
    ++num_runs_;
    for (std::uint64_t x = 0; x < count; ++x) {
      std::minstd_rand random(static_cast<std::uint32_t>(seed_ + first + x));
      random.discard(4);
      const auto i = static_cast<std::uint32_t>(random() % header_.n);
      random.discard(4);
      write_index(dst + x * input_record_bytes(1), {.i = i, .j = static_cast<std::uint32_t>(random() % header_.n)});
    }
  }
  [[nodiscard]] std::uint64_t num_read() const { return num_read_; }
  [[nodiscard]] std::uint64_t num_runs() const { return num_runs_; }

 private:
  MatrixHeader header_;
  std::uint64_t seed_;
  std::string name_ = "spread";
  mutable std::atomic<std::uint64_t> num_read_{0};
  mutable std::atomic<std::uint64_t> num_runs_{0};
};

/// k places that draw(random) gives.
template <class Draw>
std::set<Cell> drawn(std::size_t k, std::uint64_t seed, const Draw& draw) {
  std::mt19937_64 random(seed);
  std::set<Cell> cells;
  while (cells.size() < k) cells.insert(draw(random));
  return cells;
}

std::set<Cell> uniform(std::uint32_t nb, std::size_t k, std::uint64_t seed) {
  return drawn(k, seed, [&](auto& random) { return Cell(random() % nb, random() % nb); });
}

std::set<Cell> rmat(unsigned bits, std::size_t k, std::uint64_t seed) {
  return drawn(k, seed, [&](auto& random) {
    Cell cell;
    for (unsigned x = 0; x < bits; ++x) {
      const std::uint64_t part = random() % 100;
      cell = {2 * cell.first + (part >= 76 ? 1 : 0),
              2 * cell.second + ((part >= 57 && part < 76) || part >= 95 ? 1 : 0)};
    }
    return cell;
  });
}

std::set<Cell> power_law(std::uint32_t nb, std::size_t k, std::uint64_t seed) {
  return drawn(k, seed, [&](auto& random) {
    const auto draw = [&] {
      return static_cast<std::uint32_t>(std::pow(nb, static_cast<double>(random()) * 0x1p-64)) % nb;
    };
    const std::uint32_t i = draw();
    return Cell(i, draw());
  });
}

std::set<Cell> arrow(std::uint32_t nb) {
  std::set<Cell> cells;
  for (std::uint32_t x = 0; x < nb; ++x) cells.insert({{0, x}, {x, 0}, {x, x}});
  return cells;
}

/// Full groups along the diagonal, or a band.
std::set<Cell> groups(std::uint32_t num, std::uint32_t side) {
  std::set<Cell> cells;
  for (std::uint32_t i = 0; i < num * side; ++i) {
    for (std::uint32_t j = 0; j < side; ++j) cells.insert({i, i / side * side + j});
  }
  return cells;
}
std::set<Cell> band(std::uint32_t nb, std::uint32_t width) {
  std::set<Cell> cells;
  for (std::uint32_t i = 0; i < nb; ++i) {
    for (std::uint32_t j = i - std::min(i, width); j < std::min(nb, i + width + 1); ++j) cells.insert({i, j});
  }
  return cells;
}

struct Counted {
  double pairs = 0;
  double c_blocks = 0;
};

Counted counted(const Cells& a, const Cells& b) {
  const std::uint32_t nb = a.header().blocks_per_side();
  std::vector<std::vector<std::uint32_t>> rows_of_a(nb);
  std::vector<std::vector<std::uint32_t>> rows_of_b(nb);
  for (const auto& [i, j] : a.cells()) rows_of_a[i].push_back(j);
  for (const auto& [i, j] : b.cells()) rows_of_b[i].push_back(j);
  std::vector<std::uint32_t> last_row(nb);
  Counted all;
  for (std::uint32_t i = 0; i < nb; ++i) {
    for (const std::uint32_t t : rows_of_a[i]) {
      all.pairs += static_cast<double>(rows_of_b[t].size());
      for (const std::uint32_t j : rows_of_b[t]) all.c_blocks += std::exchange(last_row[j], i + 1) != i + 1;
    }
  }
  return all;
}

struct Pattern {
  std::string name;
  std::uint32_t nb;
  std::set<Cell> a;
  std::set<Cell> b;
  bool is_homogeneous;  // each C block has about as many pairs
};

std::vector<Pattern> patterns() {
  return {{"uniform", 20'000, uniform(20'000, 150'000, 1), uniform(20'000, 150'000, 2), true},
          {"R-MAT", 1u << 15, rmat(15, 150'000, 1), rmat(15, 150'000, 2), false},
          {"power law", 20'000, power_law(20'000, 100'000, 1), power_law(20'000, 100'000, 2), false},
          {"arrow", 6'000, arrow(6'000), arrow(6'000), true},
          {"groups", 50 * 50, groups(50, 50), groups(50, 50), true},
          {"band", 10'000, band(10'000, 7), band(10'000, 7), true}};
}

}  // namespace

TEST_CASE("pairs of small operands are counted exactly, those of large ones estimated from a part of their records") {
  Workers workers;
  for (const std::uint32_t m : {1u, 4u, 8u}) {
    const Cells a(60, m, uniform(60, 900, 1), 1);
    const Cells b(60, m, uniform(60, 300, 2), 2);
    const ProductOperands operands(a, b);
    const plan::Statistics s = SampledProduct(operands, 3, workers).statistics();
    CHECK(s.num_pairs == counted(a, b).pairs);
    CHECK(s.num_c_blocks <= s.num_pairs);
    CHECK_FALSE(s.exact);
  }
  const Cells a(1'500, 8, uniform(1'500, 150'000, 1), 1);  // 20 MB
  const Cells b(1'500, 8, uniform(1'500, 100'000, 2), 2);
  const ProductOperands operands(a, b);
  const plan::Statistics s = SampledProduct(operands, 4, workers).statistics();
  CHECK(s.num_pairs == Approx(counted(a, b).pairs).epsilon(0.05));
  CHECK(s.num_pairs != counted(a, b).pairs);  // not all were read
}

TEST_CASE("C blocks are within 1.4 of the exact number for every pattern, in any order of records") {
  Workers workers;
  for (const Pattern& pattern : patterns()) {
    for (const std::uint64_t seed : {0, 5}) {
      const Cells a(pattern.nb, 4, pattern.a, seed);  // 0.7 to 6 MB
      const Cells b(pattern.nb, 4, pattern.b, seed * 2);
      const Counted exact = counted(a, b);
      const ProductOperands operands(a, b);
      const SampledProduct sample(operands, 3, workers);
      INFO(pattern.name << (seed == 0 ? " sorted " : " shuffled ") << exact.pairs << " pairs");
      CHECK(sample.statistics().num_pairs == Approx(exact.pairs).epsilon(0.2));
      const double found = sample.count_c_blocks().most.num_c_blocks;
      CHECK(found < 1.4 * exact.c_blocks);
      CHECK(found > exact.c_blocks / 1.4);
      const double of_sampled = sample.sample_c_blocks().fewest.num_c_blocks;
      CHECK(of_sampled < 3 * exact.c_blocks);
      CHECK(sample.sample_c_blocks().most.num_c_blocks > exact.c_blocks / 1.4);
      if (pattern.is_homogeneous) CHECK(of_sampled > exact.c_blocks / 2);
      CHECK(sample.sample_c_blocks().fewest.num_c_blocks == of_sampled);  // whatever thread reads what
    }
  }
}

TEST_CASE("of one record in many there are two ends, with the number of C blocks between them") {
  Workers workers;
  for (const Pattern& pattern : patterns()) {
    INFO(pattern.name);
    const Cells a(pattern.nb, 4, pattern.a, 5);
    const Cells b(pattern.nb, 4, pattern.b, 6);
    const Counted exact = counted(a, b);
    const ProductOperands operands(a, b);
    const SampledProduct sample(operands, 3, workers, a.cells().size() / 10);
    CHECK(sample.statistics().num_pairs == Approx(exact.pairs).epsilon(0.5));
    const SampledProduct::CBlocks ends = sample.sample_c_blocks();
    CHECK(ends.fewest.num_c_blocks < 1.4 * exact.c_blocks);
    CHECK(ends.most.num_c_blocks > exact.c_blocks / 1.4);
    CHECK(ends.fewest.num_c_blocks <= ends.most.num_c_blocks);
    const double counted_again = sample.count_c_blocks().most.num_c_blocks;
    CHECK(counted_again < 2 * exact.c_blocks);
    CHECK(counted_again > exact.c_blocks / 2);
  }
}

TEST_CASE("the more records are read, the closer are the ends to the number of C blocks") {
  Workers workers;
  for (const Pattern& pattern : patterns()) {
    const Cells a(pattern.nb, 1, pattern.a, 5);
    const Cells b(pattern.nb, 1, pattern.b, 6);
    const Counted exact = counted(a, b);
    const ProductOperands operands(a, b);
    const SampledProduct sample(operands, 3, workers, a.cells().size() / 60);
    const SampledProduct::CBlocks few = sample.sample_c_blocks();
    for (const std::uint64_t stride : {8u, 4u, 2u}) {
      INFO(pattern.name << ", one of " << stride);
      const std::uint64_t before = a.num_read() + b.num_read();
      const SampledProduct::CBlocks ends = sample.count_c_blocks(stride);
      CHECK(a.num_read() + b.num_read() - before < (a.cells().size() + b.cells().size()) * 5 / (4 * stride));
      CHECK(ends.fewest.num_c_blocks < 1.6 * exact.c_blocks);
      CHECK(ends.most.num_c_blocks > exact.c_blocks / 1.6);
      CHECK(ends.fewest.num_c_blocks <= ends.likely.num_c_blocks);
      CHECK(ends.likely.num_c_blocks <= ends.most.num_c_blocks);
      if (pattern.name == "arrow") continue;  // one C block has as many pairs as some thousand others
      CHECK(ends.likely.num_c_blocks < 1.7 * exact.c_blocks);
      CHECK(ends.likely.num_c_blocks > exact.c_blocks / 1.7);
      if (pattern.name == "uniform") {
        CHECK(ends.fewest.num_c_blocks > 1.5 * few.fewest.num_c_blocks);
        CHECK(ends.fewest.num_c_blocks > exact.c_blocks / 1.6);
      }
    }
  }
}

TEST_CASE("a product with a large result goes to the device, and few of the records are read for that") {
  Workers workers;
  plan::Limits limits = test::large_machine();
  limits.backend = Backend::automatic;
  limits.discards_result = true;
  limits.num_threads = limits.num_cores = 16;
  limits.device->start_s = 0.35;
  limits.device->transfer_bytes_per_ms = 5.5e7;
  const Spread a(1'000'000, 26'463'592, 1);
  const Spread b(1'000'000, 26'463'592, 2);
  CHECK(choose_backend({a, b}, limits, workers).backend == Backend::cuda);
  CHECK(a.num_read() + b.num_read() < 2u * 26'463'592 / 8);
  CHECK(a.num_runs() < a.num_read() / 200);  // a page each: of runs of 320 bytes the calls took longer than the copies
}

TEST_CASE("tiles of B are estimated with the C blocks") {
  Workers workers;
  const std::uint32_t nb = 8 * 3'000;
  std::set<Cell> cells;  // four neighbours in each tile
  for (std::uint32_t i = 0; i < nb; ++i) {
    for (std::uint32_t j = 0; j < 4; ++j) cells.insert({i, (i * 8 + j) % nb});
  }
  const Cells a(nb, 1, cells, 1);
  const ProductOperands operands(a, a);
  const plan::Statistics s = SampledProduct(operands, 2, workers).count_c_blocks().most;
  CHECK(s.tile_pairs == Approx(s.num_pairs / 4).epsilon(0.01));
}

TEST_CASE("a choice that depends on the size of the result counts its blocks") {
  Workers workers;
  const Cells a(6'000, 4, arrow(6'000), 1);
  const ProductOperands operands(a, a);
  plan::Limits limits = test::large_machine();
  limits.backend = Backend::automatic;
  limits.discards_result = true;
  const plan::Execution few_blocks = plan::decide(SampledProduct(operands, 2, workers).statistics(), limits);
  REQUIRE(few_blocks.predicted_cuda_s < few_blocks.predicted_cpu_s);
  limits.device->start_s = 0.9 * (few_blocks.predicted_cpu_s - few_blocks.predicted_cuda_s);
  CHECK(plan::decide(SampledProduct(operands, 2, workers).statistics(), limits).backend == Backend::cuda);
  const BackendChoice choice = choose_backend(operands, limits, workers);
  CHECK(choice.backend == Backend::cpu);  // 2.6 GB take longer on their way from the device
  CHECK(choice.cuda_s > 10 * few_blocks.predicted_cuda_s);
}

TEST_CASE("a choice for the CPU reads few of the records, also if it depends on the size of the result") {
  Workers workers;
  plan::Limits limits = test::large_machine();
  limits.backend = Backend::automatic;
  limits.discards_result = true;
  limits.num_threads = limits.num_cores = 16;
  limits.device->start_s = 0.35;
  constexpr std::size_t kBlocks = 300'000;
  const std::vector<Pattern> large = {
      {"uniform", 16'384, uniform(16'384, kBlocks, 1), uniform(16'384, kBlocks, 2), true},
      {"R-MAT", 1u << 16, rmat(16, kBlocks, 1), rmat(16, kBlocks, 2), false}};
  for (const Pattern& pattern : large) {
    for (const std::uint32_t m : {1u, 2u, 8u}) {
      INFO(pattern.name << " of side " << m);
      const Cells a(pattern.nb, m, pattern.a, 1);
      const Cells b(pattern.nb, m, pattern.b, 2);
      CHECK(choose_backend({a, b}, limits, workers).backend == Backend::cpu);
      CHECK(a.num_read() + b.num_read() < 2 * kBlocks / 16);
    }
  }
}
