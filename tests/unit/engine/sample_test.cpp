// Pairs and C blocks that are estimated from indices, against those counted one by one.
#include "engine/backend_choice.hpp"

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/records/head.hpp"
#include "plan/choice.hpp"
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
    for (std::uint64_t x = 0; x < count; ++x) {
      const auto& [i, j] = cells_[first + x];
      write_index(dst + x * record, BlockIndex{.i = i, .j = j});
    }
  }
  [[nodiscard]] const std::vector<Cell>& cells() const { return cells_; }

 private:
  MatrixHeader header_;
  std::vector<Cell> cells_;
  std::string name_ = "cells";
};

std::set<Cell> uniform(std::uint32_t nb, std::size_t k, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::set<Cell> cells;
  while (cells.size() < k) cells.insert(Cell(random() % nb, random() % nb));
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

}  // namespace

TEST_CASE("pairs of small operands are counted exactly, those of large ones estimated from a part of their records") {
  Workers workers;
  for (const std::uint32_t m : {1u, 4u, 8u}) {
    const Cells a(60, m, uniform(60, 900, 1), 1);
    const Cells b(60, m, uniform(60, 300, 2), 2);
    const plan::Counts s = sampled({a, b}, 3, workers, [](const plan::Counts&) { return false; });
    CHECK(s.num_pairs == counted(a, b).pairs);
    CHECK(s.num_c_blocks <= s.num_pairs);
    CHECK_FALSE(s.exact);
  }
  const Cells a(1'500, 8, uniform(1'500, 150'000, 1), 1);  // 20 MB
  const Cells b(1'500, 8, uniform(1'500, 100'000, 2), 2);
  const plan::Counts s = sampled({a, b}, 4, workers, [](const plan::Counts&) { return false; });
  CHECK(s.num_pairs == Approx(counted(a, b).pairs).epsilon(0.05));
  CHECK(s.num_pairs != counted(a, b).pairs);  // not all were read
}
