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

std::set<Cell> arrow(std::uint32_t nb) {
  std::set<Cell> cells;
  for (std::uint32_t x = 0; x < nb; ++x) cells.insert({{0, x}, {x, 0}, {x, x}});
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
};

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

TEST_CASE("a product with a large result goes to the device, and few of the records are read for that") {
  Workers workers;
  plan::Limits limits = test::large_machine();
  limits.backend = Backend::automatic;
  limits.discards_result = true;
  limits.num_threads = limits.num_cores = 4;
  limits.gpus[0].start_s = 0.35;
  const Spread a(1'000'000, 26'463'592, 1);
  const Spread b(1'000'000, 26'463'592, 2);
  CHECK(choose_backend({a, b}, limits, workers).backend == Backend::cuda);
  CHECK(a.num_read() + b.num_read() < 2u * 26'463'592 / 8);
  CHECK(a.num_runs() <= a.num_read() / 200);  // a page each: of runs of 320 bytes the calls took longer than the copies
}

TEST_CASE("a choice that depends on the size of the result counts its blocks") {
  Workers workers;
  const Cells a(6'000, 4, arrow(6'000), 1);
  const ProductOperands operands(a, a);
  plan::Limits limits = test::large_machine();
  limits.backend = Backend::automatic;
  limits.discards_result = true;
  const plan::Execution few_blocks = plan::decide(SampledProduct(operands, 2, workers).statistics(), limits);
  REQUIRE(few_blocks.compared);
  REQUIRE(few_blocks.compared->cuda_s < few_blocks.compared->cpu_s);
  limits.gpus[0].start_s = 0.9 * (few_blocks.compared->cpu_s - few_blocks.compared->cuda_s);
  CHECK(plan::decide(SampledProduct(operands, 2, workers).statistics(), limits).backend == Backend::cuda);
  const BackendChoice choice = choose_backend(operands, limits, workers);
  CHECK(choice.backend == Backend::cpu);  // 2.6 GB take longer on their way from the device
}

TEST_CASE("a choice for the CPU reads few of the records, also if it depends on the size of the result") {
  Workers workers;
  plan::Limits limits = test::large_machine();
  limits.backend = Backend::automatic;
  limits.discards_result = true;
  limits.num_threads = limits.num_cores = 16;
  limits.gpus[0].start_s = 0.35;
  constexpr std::size_t kBlocks = 300'000;
  const std::vector<Pattern> large = {{"uniform", 16'384, uniform(16'384, kBlocks, 1), uniform(16'384, kBlocks, 2)},
                                      {"R-MAT", 1u << 16, rmat(16, kBlocks, 1), rmat(16, kBlocks, 2)}};
  for (const Pattern& pattern : large) {
    for (const std::uint32_t m : {1u, 8u}) {
      INFO(pattern.name << " of side " << m);
      const Cells a(pattern.nb, m, pattern.a, 1);
      const Cells b(pattern.nb, m, pattern.b, 2);
      CHECK(choose_backend({a, b}, limits, workers).backend == Backend::cpu);
      CHECK(a.num_read() + b.num_read() < 2 * kBlocks / 16);
    }
  }
}
