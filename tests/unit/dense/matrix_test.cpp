// Matrices of spmm-dense: as printed, ranges, random elements.
#include "tools/dense/dense_run.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "spmm/error.hpp"
#include "support/catch.hpp"
#include "support/process.hpp"
#include "unit/dense/dense_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
using dense::Type;
using tools::Operand;

template <class T>
std::vector<T> values_of(const std::vector<std::byte>& elements) {
  std::vector<T> values(elements.size() / sizeof(T));
  std::memcpy(values.data(), elements.data(), elements.size());
  return values;
}

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("matrix files: as written", "[dense][matrix]") {
  const TemporaryFolder folder;
  const auto check = [&](Type type, Operand operand, std::span<const std::byte> elements, std::uint32_t cols,
                         const std::string& expected) {
    tools::write_dense(folder.file("m"), type, operand, elements, cols);
    CHECK(text_of(folder.file("m.txt")) == expected);
    std::string with_commas = expected;
    std::replace(with_commas.begin(), with_commas.end(), ' ', ',');
    CHECK(text_of(folder.file("m.csv")) == with_commas);
  };
  const std::vector<std::int32_t> numbers = {INT32_MIN, 0, 5, INT32_MAX, -1, 9};
  check(Type::i32, Operand::input, bytes_of(numbers), 3, "-2147483648 0 5\n2147483647 -1 9\n");
  check(Type::i32, Operand::result, bytes_of(numbers), 2, "-2147483648 0\n5 2147483647\n-1 9\n");
  check(Type::u16, Operand::input, bytes_of(std::vector<std::uint16_t>{0, 65535}), 1, "0\n65535\n");
  check(Type::u16, Operand::result, bytes_of(std::vector<std::uint32_t>{0, UINT32_MAX}), 1, "0\n4294967295\n");
  check(Type::f32, Operand::result, bytes_of(std::vector<float>{0.1f, 1e-45f, 16777217.0f, -0.0f}), 4,
        "0.1 1e-45 16777216 -0\n");
}

TEST_CASE("matrix files: a large one", "[dense][matrix]") {
  const TemporaryFolder folder;
  const auto values = random_elements<std::int32_t>(200'000, INT32_MIN, INT32_MAX, 1);
  tools::write_dense(folder.file("m"), Type::i32, Operand::input, bytes_of(values), 400);
  std::ifstream in(folder.file("m.txt"));
  std::vector<std::int32_t> read(std::istream_iterator<std::int32_t>(in), {});
  CHECK(read == values);
}

TEST_CASE("matrix files: paths that lead nowhere", "[dense][matrix]") {
  const TemporaryFolder folder;
  const std::vector<float> one = {1};
  CHECK_THROWS_AS(tools::write_dense(folder.file("no/m"), Type::f32, Operand::input, bytes_of(one), 1), OutputError);
  std::filesystem::create_symlink("/dev/full", folder.file("full.txt"));
  CHECK_THROWS_AS(tools::write_dense(folder.file("full"), Type::f32, Operand::input, bytes_of(one), 1), IoError);
}

TEST_CASE("ranges: both ends inside the type", "[dense][matrix]") {
  const auto parse = [](const std::string& text, Type type) {
    const tools::ValueRange range = tools::parse_range(text, type, "--range");
    return std::pair(range.low, range.high);
  };
  CHECK(parse("-10:10", Type::i32) == std::pair(-10.0, 10.0));
  CHECK(parse("-2147483648:2147483647", Type::i32) == std::pair(-2147483648.0, 2147483647.0));
  CHECK(parse("0:65535", Type::u16) == std::pair(0.0, 65535.0));
  CHECK(parse("3:3", Type::i32) == std::pair(3.0, 3.0));
  CHECK(parse("-0.5:1e3", Type::f32) == std::pair(-0.5, 1000.0));
  for (const char* bad : {"-1:5", "0:65536", "0:1.5", "5", "5:", ":5", "6:5", "a:b", "1:2:3", ""}) {
    INFO(bad);
    CHECK_THROWS_AS(parse(bad, Type::u16), UsageError);
  }
  CHECK_THROWS_AS(parse("-2147483649:0", Type::i32), UsageError);
  CHECK_THROWS_AS(parse("0:inf", Type::f32), UsageError);
  CHECK_THROWS_WITH(parse("0:70000", Type::u16),
                    "--range: \"70000\" is no end of a range; give a whole number from 0 to 65535");
  for (const Type type : {Type::i32, Type::f32, Type::u16}) {
    CHECK_NOTHROW(tools::parse_range(tools::default_range(type), type, ""));
  }
}

TEST_CASE("random elements: within the range, both ends reached, the same for every number of threads",
          "[dense][matrix]") {
  const auto make = [](Type type, tools::ValueRange range, std::uint64_t key, unsigned threads) {
    return tools::random_dense(type, 200'000, range, key, threads);
  };
  const std::vector<std::byte> one = make(Type::i32, {.low = -10, .high = 10}, 7, 1);
  CHECK(one.size() == 800'000);
  CHECK(one == make(Type::i32, {.low = -10, .high = 10}, 7, 3));
  CHECK(one != make(Type::i32, {.low = -10, .high = 10}, 8, 3));
  const auto values = values_of<std::int32_t>(one);
  std::vector<int> times(21);
  for (const std::int32_t value : values) {
    REQUIRE(value >= -10);
    REQUIRE(value <= 10);
    ++times[static_cast<std::size_t>(value + 10)];
  }
  for (const int count : times) {
    CHECK(count > 200'000 / 21 - 600);
    CHECK(count < 200'000 / 21 + 600);
  }
  const auto whole = values_of<std::int32_t>(make(Type::i32, {.low = INT32_MIN, .high = INT32_MAX}, 1, 2));
  CHECK(*std::min_element(whole.begin(), whole.end()) < -2'147'000'000);
  CHECK(*std::max_element(whole.begin(), whole.end()) > 2'147'000'000);
  const auto reals = values_of<float>(make(Type::f32, {.low = -0.5, .high = 0.25}, 1, 2));
  CHECK(*std::min_element(reals.begin(), reals.end()) >= -0.5f);
  CHECK(*std::min_element(reals.begin(), reals.end()) < -0.499f);
  CHECK(*std::max_element(reals.begin(), reals.end()) <= 0.25f);
  CHECK(*std::max_element(reals.begin(), reals.end()) > 0.249f);
}
