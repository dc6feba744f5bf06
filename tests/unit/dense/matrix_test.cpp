// Matrices of spmm-dense: text and CSV there and back, what is refused, ranges, random elements.
#include "tools/dense/dense_matrix.hpp"

#include <cstring>
#include <fstream>
#include <limits>
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
using tools::DenseMatrix;
using tools::Operand;

template <class T>
std::vector<T> values_of(const DenseMatrix& matrix) {
  std::vector<T> values(matrix.elements.size() / sizeof(T));
  std::memcpy(values.data(), matrix.elements.data(), matrix.elements.size());
  return values;
}

DenseMatrix read_text(const std::string& content, Type type) {
  const TemporaryFolder folder;
  std::ofstream(folder.file("m.txt"), std::ios::binary) << content;
  return tools::read_dense(folder.file("m.txt"), type);
}

/// What reading says, without the folder.
std::string refusal(const std::string& content, Type type) {
  try {
    read_text(content, type);
  } catch (const FormatError& error) {
    const std::string message = error.what();
    return message.substr(message.find("m.txt"));
  }
  return "";
}

template <class T>
void check_round_trip(Type type, Operand operand, const std::vector<T>& values, std::uint32_t cols, Type read_as) {
  const TemporaryFolder folder;
  for (const char separator : {' ', ','}) {
    tools::write_dense(folder.file("m"), type, operand, bytes_of(values), cols, separator);
    const DenseMatrix matrix = tools::read_dense(folder.file("m"), read_as);
    CHECK(matrix.rows == values.size() / cols);
    CHECK(matrix.cols == cols);
    CHECK(values_of<T>(matrix) == values);
  }
}

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("matrix files: as written, and there and back", "[dense][matrix]") {
  const TemporaryFolder folder;
  const std::vector<std::int8_t> bytes = {-128, 0, 5, 127, -1, 9};
  tools::write_dense(folder.file("m.txt"), Type::s8, Operand::input, bytes_of(bytes), 3, ' ');
  tools::write_dense(folder.file("m.csv"), Type::s8, Operand::input, bytes_of(bytes), 2, ',');
  CHECK(text_of(folder.file("m.txt")) == "-128 0 5\n127 -1 9\n");
  CHECK(text_of(folder.file("m.csv")) == "-128,0\n5,127\n-1,9\n");
  const std::vector<std::uint32_t> sums = {0, UINT32_MAX};
  tools::write_dense(folder.file("c.csv"), Type::u16, Operand::result, bytes_of(sums), 1, ',');
  CHECK(text_of(folder.file("c.csv")) == "0\n4294967295\n");
  check_round_trip(Type::s8, Operand::input, bytes, 3, Type::s8);
  check_round_trip(Type::s8, Operand::result, std::vector<std::int32_t>{INT32_MIN, 1, 2, INT32_MAX}, 2, Type::i32);
  check_round_trip(Type::u16, Operand::input, std::vector<std::uint16_t>{0, 65535, 256, 1}, 4, Type::u16);
  check_round_trip(Type::i32, Operand::input, std::vector<std::int32_t>{INT32_MIN, INT32_MAX, 0}, 1, Type::i32);
  const std::vector<float> numbers = {0.1f, -1.0f / 3, std::numeric_limits<float>::max(), 1e-45f, 16777217.0f, -0.0f};
  check_round_trip(Type::f32, Operand::result, numbers, 3, Type::f32);
}

TEST_CASE("matrix files: a large one there and back", "[dense][matrix]") {
  check_round_trip(Type::i32, Operand::input, random_elements<std::int32_t>(200'000, INT32_MIN, INT32_MAX, 1), 400,
                   Type::i32);
}

TEST_CASE("matrix files: blanks, tabs, line ends and empty lines", "[dense][matrix]") {
  for (const char* content : {"1 2\n3 4\n", "1,2\n3,4", "  1\t 2 \r\n3  4\r\n\n", "\n1 , 2\n\n 3,4 \n"}) {
    INFO(content);
    const DenseMatrix matrix = read_text(content, Type::u16);
    CHECK(matrix.rows == 2);
    CHECK(matrix.cols == 2);
    CHECK(values_of<std::uint16_t>(matrix) == std::vector<std::uint16_t>{1, 2, 3, 4});
  }
}

TEST_CASE("matrix files: what is no matrix is refused with its place", "[dense][matrix]") {
  CHECK(refusal("1 2\n\n3\n", Type::i32) ==
        "m.txt, line 3: found 1 element, expected 2 as in the first row; give every row the same number of elements");
  CHECK(refusal("1,2\n3,4,5\n", Type::i32).find("m.txt, line 2: found 3 elements, expected 2") == 0);
  CHECK(refusal("1 65536", Type::u16) == "m.txt, line 1: element 2 is \"65536\"; write a whole number from 0 to 65535");
  CHECK(refusal("-129", Type::s8).find("a whole number from -128 to 127") != std::string::npos);
  CHECK(refusal("", Type::f32) == "m.txt: found no element, expected a matrix; write one row per line");
  for (const char* content : {" \n\n", "1,,2", "1,2,", "1;2", "x", "1.5", "+1", "0x1", "1e3"}) {
    INFO(content);
    CHECK_FALSE(refusal(content, Type::i32).empty());
  }
  for (const char* content : {"nan", "inf", "1e39", "1.5f"}) {
    INFO(content);
    CHECK_FALSE(refusal(content, Type::f32).empty());
  }
  CHECK(values_of<float>(read_text("1.5 -2e3", Type::f32)) == std::vector<float>{1.5, -2000});
}

TEST_CASE("matrix files: paths that lead nowhere", "[dense][matrix]") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(tools::read_dense(folder.file("none"), Type::f32), InputError);
  CHECK_THROWS_AS(tools::read_dense(folder.path().string(), Type::f32), IoError);
  const std::vector<float> one = {1};
  CHECK_THROWS_AS(tools::write_dense(folder.file("no/m"), Type::f32, Operand::input, bytes_of(one), 1, ','),
                  OutputError);
  CHECK_THROWS_AS(tools::write_dense("/dev/full", Type::f32, Operand::input, bytes_of(one), 1, ','), IoError);
}

TEST_CASE("ranges: both ends inside the type", "[dense][matrix]") {
  const auto parse = [](const std::string& text, Type type) {
    const tools::ValueRange range = tools::parse_range(text, type, "--range");
    return std::pair(range.low, range.high);
  };
  CHECK(parse("-10:10", Type::i32) == std::pair(-10.0, 10.0));
  CHECK(parse("-2147483648:2147483647", Type::i32) == std::pair(-2147483648.0, 2147483647.0));
  CHECK(parse("0:65535", Type::u16) == std::pair(0.0, 65535.0));
  CHECK(parse("3:3", Type::s8) == std::pair(3.0, 3.0));
  CHECK(parse("-0.5:1e3", Type::f32) == std::pair(-0.5, 1000.0));
  for (const char* bad : {"-1:5", "0:65536", "0:1.5", "5", "5:", ":5", "6:5", "a:b", "1:2:3", ""}) {
    INFO(bad);
    CHECK_THROWS_AS(parse(bad, Type::u16), UsageError);
  }
  CHECK_THROWS_AS(parse("-129:0", Type::s8), UsageError);
  CHECK_THROWS_AS(parse("0:inf", Type::f32), UsageError);
  CHECK_THROWS_WITH(parse("0:70000", Type::u16),
                    "--range: \"70000\" is no end of a range; give a whole number from 0 to 65535");
  for (const Type type : {Type::i32, Type::f32, Type::u16, Type::s8}) {
    CHECK_NOTHROW(tools::parse_range(tools::default_range(type), type, ""));
  }
}

TEST_CASE("random elements: within the range, both ends reached, the same for every number of threads",
          "[dense][matrix]") {
  const auto make = [](Type type, tools::ValueRange range, std::uint64_t key, unsigned threads) {
    return tools::random_dense(type, 500, 400, range, key, threads);
  };
  const DenseMatrix one = make(Type::i32, {.low = -10, .high = 10}, 7, 1);
  CHECK(one.rows == 500);
  CHECK(one.cols == 400);
  CHECK(one.elements == make(Type::i32, {.low = -10, .high = 10}, 7, 3).elements);
  CHECK(one.elements != make(Type::i32, {.low = -10, .high = 10}, 8, 3).elements);
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
