// The dense-blas kernel: panels, sums at and beyond what a double holds exactly, memory; and when "auto" takes it.
#include <algorithm>
#include <random>

#include "spmm/error.hpp"
#include "spmm/multiply.hpp"
#include "spmm/saturate.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/matrix_builder.hpp"
#include "support/oracle.hpp"
#include "unit/cpu/run_cpu.hpp"

namespace spmm::test {
namespace {

bool has_dense_blas() {
  return cpu::has_dense_blas();
}

TEST_CASE("cpu: dense panels keep the budget, and smaller products need no more than larger ones") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 3000; ++round) {
    const auto m = static_cast<std::uint32_t>(random() % kMaxBlockDim + 1);
    const auto side = [&] { return random() % (std::uint64_t{1} << (random() % 31)) + 1; };
    const plan::DenseExtent most{.m = m, .rows = side(), .inner = side(), .cols = side()};
    const auto part = [&](std::uint64_t whole) { return random() % whole + 1; };
    const plan::DenseExtent some{.m = m, .rows = part(most.rows), .inner = part(most.inner), .cols = part(most.cols)};
    const std::uint64_t budget = 8 * output_record_bytes(m) << (random() % 24);
    const std::uint64_t uncut = plan::choose_dense_panels(most, ~std::uint64_t{0}).bytes(m);
    INFO("m = " << m << ", " << most.rows << " x " << most.inner << " x " << most.cols << " blocks, budget " << budget);
    for (const plan::DenseExtent& extent : {most, some}) {
      const plan::DensePanels panels = plan::share_dense_panels(extent, budget, 1 + round % 5);
      CHECK(panels.bytes(m) <= std::min(budget, uncut));
      CHECK(std::min({panels.rows, panels.inner, panels.cols}) >= 1);
      CHECK(panels.rows <= extent.rows);
      CHECK(panels.inner <= extent.inner);
      CHECK(panels.cols <= panels.result_cols);
      CHECK((panels.rows == 1 || panels.result_cols == extent.cols));
    }
  }
}

TEST_CASE("cpu: dense panels of a large product use the memory they may have") {
  const plan::DenseExtent extent{.m = 8, .rows = 1000, .inner = 1000, .cols = 1000};
  CHECK(plan::choose_dense_panels(extent, 64u << 20).bytes(8) > 16u << 20);
  CHECK(plan::share_dense_panels(extent, 64u << 20, 64).rows < plan::choose_dense_panels(extent, 64u << 20).rows);
}

/// A row of `length` blocks of one element, all `value`, and its like as a column.
std::pair<BlockMatrix, BlockMatrix> long_row(std::uint32_t length, std::uint16_t value) {
  BlockMatrix row{.n = length, .m = 1, .index = {}, .values = std::vector<std::uint16_t>(length, value)};
  for (std::uint32_t t = 0; t < length; ++t) row.index.push_back({.i = 0, .j = t});
  return {row, transposed(row)};
}

TEST_CASE("cpu: dense sums beyond 2^53 saturate, those at the limits of 32 bits are exact") {
  if (!has_dense_blas()) return;
  constexpr std::uint32_t kLength = (1u << 21) + 100;
  REQUIRE(double{65535} * 65535 * kLength > std::ldexp(1.0, 53));
  auto [a, b] = long_row(kLength, 65535);
  // In row 0 of A all elements are 65535. Column 0 of B is full; column 1 sums up to 2^32 - 1 at the far ends of the
  // inner dimension, column 2 to 65535 less, column 3 to 65535 more.
  const auto add = [&, &b = b](std::uint32_t t, std::uint32_t j, std::uint16_t value) {
    b.index.push_back({.i = t, .j = j});
    b.values.push_back(value);
  };
  for (const std::uint32_t j : {1u, 2u, 3u}) add(0, j, 65535);
  add(kLength - 1, 1, 2);
  add(kLength / 2, 2, 1);
  add(kLength - 1, 3, 3);
  const ProductMatrix expected{.n = kLength,
                               .m = 1,
                               .index = {{0, 0}, {0, 1}, {0, 2}, {0, 3}},
                               .values = {kMaxVal, kMaxVal, kMaxVal - 65535, kMaxVal}};
  CHECK((run_cpu(a, b, {.kernel = "dense-blas"}) == expected));
  CHECK((run_cpu(a, b, {.kernel = "dense-blas", .panel_bytes = 1u << 20}) == expected));
}

TEST_CASE("cpu: dense panels of every size give the same product") {
  if (!has_dense_blas()) return;
  // Empty lines of both operands, so that rows, columns and inner lines are all renumbered; several panels each way.
  MatrixBuilder a(1001, 3, 1);
  MatrixBuilder b(1001, 3, 2);
  for (std::uint32_t x = 0; x < 1000; x += 3) {
    for (std::uint32_t y = 0; y < 1000; y += 7) {
      if ((x + y) % 5 == 0) continue;
      a.add_random(x, y, 4095);
      b.add_random(y, x + (y % 2), 65535);
    }
  }
  const ProductMatrix expected = oracle_multiply(a.matrix(), b.matrix());
  REQUIRE(std::count(expected.values.begin(), expected.values.end(), kMaxVal) > 0);
  for (const std::uint64_t panel_bytes : {1u << 11, 1u << 16, 1u << 23}) {
    for (const unsigned num_threads : {1u, 3u}) {
      INFO(panel_bytes << " bytes per buffer, " << num_threads << " threads");
      CHECK((run_cpu(a.matrix(), b.matrix(),
                     {.kernel = "dense-blas", .num_threads = num_threads, .panel_bytes = panel_bytes}) == expected));
    }
  }
}

TEST_CASE("cpu: dense-blas within small memory limits, in slabs, or rejected") {
  if (!has_dense_blas()) return;
  const auto a = random_matrix(1024, 4, 30'000, 65535, 1);
  const auto b = random_matrix(1024, 4, 30'000, 65535, 2);
  const ProductMatrix expected = oracle_multiply(a, b);
  Options options;
  options.backend = Backend::cpu;
  options.kernel = "dense-blas";
  options.num_threads = 2;
  for (const std::uint64_t limit : {64'000'000u, 5'000'000u, 3'000'000u}) {
    INFO(limit);
    options.memory_limit_bytes = limit;
    Report report;
    CHECK((multiply_into_sink(a, b, options, &report) == expected));
    CHECK(report.plan.host_need_bytes <= limit);
    CHECK((report.plan.num_a_slabs > 1) == (limit == 3'000'000u));
    CHECK(report.plan.kernel == "dense-blas");
    CHECK(report.device == cpu::build_info());
  }
  options.memory_limit_bytes = 1000;
  CHECK_THROWS_AS(multiply(a, b, options), OutOfMemory);
}

TEST_CASE("cpu: auto runs what was chosen, if it fits, and says why") {
  const auto full = random_matrix(256, 2, 128 * 128, 65535, 1);
  const auto sparse = random_matrix(256, 2, 500, 65535, 2);
  Options options;
  options.backend = Backend::cpu;
  Report report;
  const ProductMatrix product = multiply(full, full, options, &report);
  CHECK((product == oracle_multiply(full, full)));
  CHECK(report.plan.kernel == (has_dense_blas() ? "dense-blas" : "row-merge"));
  CHECK((reason_text(report.plan).find("predicted dense-blas") != std::string::npos) == has_dense_blas());
  CHECK(expected_kernels_text(report.plan).empty() != has_dense_blas());
  multiply(sparse, sparse, options, &report);
  CHECK(report.plan.kernel == "row-merge");
}

}  // namespace
}  // namespace spmm::test
