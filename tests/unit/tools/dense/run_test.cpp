// What spmm-dense plans and runs: random elements, kernels, tiles, memory.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "spmm/error.hpp"
#include "support/catch.hpp"
#include "unit/tools/dense/dense_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
using dense::Result;
using dense::RunOptions;
using dense::Shape;
using dense::Type;

template <class T>
std::vector<T> values_of(const std::vector<std::byte>& elements) {
  std::vector<T> values(elements.size() / sizeof(T));
  std::memcpy(values.data(), elements.data(), elements.size());
  return values;
}

constexpr Shape kOdd{.rows = 5, .inner = 6, .cols = 7};

RunOptions host_options() {
  RunOptions options;
  options.kernels = {"host-naive"};
  return options;
}

}  // namespace

TEST_CASE("random elements: within the range, both ends reached, the same for every number of threads",
          "[dense][matrix]") {
  const auto make = [](Type type, std::uint64_t key, unsigned threads) {
    return dense::random_dense(type, 200'000, key, threads);
  };
  const std::vector<std::byte> one = make(Type::i32, 7, 1);
  CHECK(one.size() == 800'000);
  CHECK(one == make(Type::i32, 7, 3));
  CHECK(one != make(Type::i32, 8, 3));
  std::vector<int> times(21);
  for (const std::int32_t value : values_of<std::int32_t>(one)) {
    REQUIRE(value >= -10);
    REQUIRE(value <= 10);
    ++times[static_cast<std::size_t>(value + 10)];
  }
  for (const int count : times) {
    CHECK(count > 200'000 / 21 - 600);
    CHECK(count < 200'000 / 21 + 600);
  }
  const auto codes = values_of<std::uint16_t>(make(Type::u16, 1, 2));
  CHECK(*std::min_element(codes.begin(), codes.end()) == 0);
  CHECK(*std::max_element(codes.begin(), codes.end()) == 1023);
  const auto reals = values_of<float>(make(Type::f32, 1, 2));
  CHECK(*std::min_element(reals.begin(), reals.end()) < -9.99f);
  CHECK(*std::max_element(reals.begin(), reals.end()) > 9.99f);
}

TEST_CASE("dense plan: all kernels of the build, by their own tile width, one, or every one", "[dense][run]") {
  RunOptions options;
  options.kernels = {"all"};
  const std::vector<std::vector<unsigned>> choices = {{}, {16}, {8, 16, 32}};
  for (const std::vector<unsigned>& tiles : choices) {
    options.tiles = tiles;
    std::vector<std::pair<std::string, unsigned>> expected;
    for (const dense::KernelInfo& kernel : dense::kernels()) {
      std::vector<unsigned> widths = tiles;
      if (kernel.tiles.empty()) widths = {0};
      if (widths.empty()) widths = {32};
      for (const unsigned width : widths) expected.emplace_back(kernel.name, width);
    }
    std::vector<std::pair<std::string, unsigned>> planned;
    for (const Result& result : plan_results(options, kOdd)) {
      planned.emplace_back(result.request.kernel, result.request.tile);
      CHECK(result.ran());
    }
    CHECK(planned == expected);
  }
}

TEST_CASE("dense plan: all leaves the host out of what takes it long", "[dense][run]") {
  RunOptions options;
  options.kernels = {"all"};
  const auto host_runs = [&](Shape shape) {
    for (const Result& result : plan_results(options, shape)) {
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
  RunOptions options = host_options();
  options.check_budget = 0;
  const Shape shape{.rows = 10, .inner = 20, .cols = 30};
  CHECK_NOTHROW(check_memory(options, shape, 4 * (200 + 600 + 300)));
  CHECK_THROWS_AS(check_memory(options, shape, 4399), OutOfMemory);
  options.check_budget = dense::kCheckBudget;
  CHECK_NOTHROW(check_memory(options, shape, 4 * (200 + 600 + 300) + 8 * 300));
  CHECK_THROWS_AS(check_memory(options, shape, 4 * (200 + 600 + 300) + 8 * 300 - 1), OutOfMemory);
  const Shape huge{.rows = UINT32_MAX, .inner = UINT32_MAX, .cols = UINT32_MAX};
  CHECK_THROWS_AS(check_memory(options, huge, UINT64_MAX), OutOfMemory);
}
