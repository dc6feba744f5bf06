// What spmm-dense plans and runs: kernels, tiles, memory, sides that do not fit.
#include "tools/dense/dense_run.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "spmm/error.hpp"
#include "support/catch.hpp"
#include "tools/dense/dense_report.hpp"

namespace {

using namespace spmm;
using dense::Shape;
using dense::Type;
using tools::DenseOptions;
using tools::DenseResult;

constexpr Shape kOdd{.rows = 5, .inner = 6, .cols = 7};

tools::DenseMatrix matrix_of(std::uint32_t rows, std::uint32_t cols) {
  return tools::random_dense(Type::f32, rows, cols, {.low = -1, .high = 1}, 1, 1);
}

DenseOptions host_options() {
  DenseOptions options;
  options.kernels = {"host-naive"};
  return options;
}

}  // namespace

TEST_CASE("dense plan: all kernels of the build that have the type", "[dense][run]") {
  for (const Type type : {Type::i32, Type::f32, Type::u16, Type::s8}) {
    DenseOptions options;
    options.type = type;
    options.kernels = {"all"};
    std::vector<std::string> expected;
    for (const dense::KernelInfo& kernel : dense::kernels()) {
      if (std::count(kernel.types.begin(), kernel.types.end(), type) != 0) expected.push_back(kernel.name);
    }
    std::vector<std::string> planned;
    for (const DenseResult& result : plan_results(options, kOdd)) {
      planned.push_back(result.request.kernel);
      CHECK(result.ran());
      CHECK(result.request.type == type);
    }
    CHECK(planned == expected);
    CHECK(std::count(planned.begin(), planned.end(), "host-naive") == 1);
  }
}

TEST_CASE("dense plan: every tile width of every kernel, the kernel's own otherwise", "[dense][run]") {
  DenseOptions options;
  options.kernels = {"all"};
  const std::size_t plain = plan_results(options, kOdd).size();
  options.tile.every = true;
  std::size_t expected = 0;
  for (const dense::KernelInfo& kernel : dense::kernels()) {
    const bool has = std::count(kernel.types.begin(), kernel.types.end(), Type::f32) != 0;
    if (has) expected += std::max<std::size_t>(1, kernel.tiles.size());
  }
  CHECK(plan_results(options, kOdd).size() == expected);
  // A width that no kernel has: those with a choice are refused, the others run.
  options.tile = {.every = false, .width = 7};
  const auto odd = plan_results(options, kOdd);
  CHECK(odd.size() == plain);
  for (const DenseResult& result : odd) {
    const auto& all = dense::kernels();
    const auto kernel =
        std::find_if(all.begin(), all.end(), [&](const auto& k) { return k.name == result.request.kernel; });
    CHECK(result.ran() == kernel->tiles.empty());
    if (result.ran()) CHECK(result.request.tile == 0);
  }
}

TEST_CASE("dense plan: names, types and widths that do not exist", "[dense][run]") {
  DenseOptions options;
  options.kernels = {"host-naive", "fastest"};
  try {
    plan_results(options, kOdd);
    FAIL("no error");
  } catch (const UsageError& error) {
    const std::string start = "--kernel: this build has no kernel \"fastest\"; use some of: all, host-naive";
    CHECK(std::string(error.what()).substr(0, start.size()) == start);
  }
  options.kernels = {"host-naive"};
  options.tile.width = 16;
  CHECK_THROWS_WITH(plan_results(options, kOdd),
                    "--tile: host-naive has no tile widths to choose from; give one of them or leave --tile out");
}

TEST_CASE("dense plan: all leaves the host out of what takes it long", "[dense][run]") {
  DenseOptions options;
  options.kernels = {"all"};
  const auto host_runs = [&](Shape shape) {
    for (const DenseResult& result : plan_results(options, shape)) {
      if (result.request.kernel == "host-naive") return result.ran();
    }
    throw std::logic_error("not planned");
  };
  CHECK(host_runs({.rows = 2048, .inner = 1024, .cols = 1024}));
  CHECK_FALSE(host_runs({.rows = 2049, .inner = 1024, .cols = 1024}));
  CHECK_FALSE(host_runs({.rows = UINT32_MAX, .inner = UINT32_MAX, .cols = UINT32_MAX}));
  options.kernels = {"host-naive"};
  CHECK(host_runs({.rows = 2049, .inner = 1024, .cols = 1024}));
}

TEST_CASE("dense memory: need and have, in more than 64 bits", "[dense][run]") {
  DenseOptions options = host_options();
  options.check = tools::CheckMode::none;
  const Shape shape{.rows = 10, .inner = 20, .cols = 30};
  CHECK(checked_memory(options, shape, 10'000) == 4 * (200 + 600 + 300));
  CHECK_THROWS_AS(checked_memory(options, shape, 4399), OutOfMemory);
  options.check = tools::CheckMode::sample;
  CHECK(checked_memory(options, shape, 10'000) == 4 * (200 + 600 + 300) + 8 * 300);
  const Shape huge{.rows = UINT32_MAX, .inner = UINT32_MAX, .cols = UINT32_MAX};
  CHECK_THROWS_AS(checked_memory(options, huge, UINT64_MAX), OutOfMemory);
}

TEST_CASE("dense run: sides that do not fit are refused", "[dense][run]") {
  CHECK_THROWS_WITH(run_product(matrix_of(3, 4), matrix_of(5, 2), host_options(), [](const auto&, auto) {}),
                    "A and B: A is 3 x 4 and B is 5 x 2; give B as many rows as A has columns");
}

TEST_CASE("dense run: result, check and figures of the host kernel", "[dense][run]") {
  DenseOptions options = host_options();
  options.runs = 3;
  std::size_t elements = 0;
  const auto product = run_product(matrix_of(3, 4), matrix_of(4, 5), options,
                                   [&](const DenseResult&, std::span<const std::byte> c) { elements = c.size() / 4; });
  CHECK(elements == 15);
  CHECK(product.rows_checked == 3);
  REQUIRE(product.results.size() == 1);
  DenseResult result = product.results.front();
  CHECK(result.measurement.run_ms.size() == 3);
  CHECK(result.passed());
  CHECK(result.comparison->elements == 15);
  result.measurement.run_ms = {4, 1, 2};
  CHECK(result.median_ms() == 2);
  CHECK(result.min_ms() == 1);
  CHECK(result.gflops() == 120 * 1e-6 / 2);
  result.measurement.run_ms = {4, 2};
  CHECK(result.median_ms() == 3);
  result.comparison->differences = 1;
  CHECK_FALSE(result.passed());
  CHECK(tools::dense_table_row(result).find("WRONG: 1 of 15 differ") != std::string::npos);
}
