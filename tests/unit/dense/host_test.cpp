// host-naive: literals, and random shapes against exact sums.
#include "tools/dense/dense_multiply.hpp"

#include <limits>
#include <random>
#include <vector>

#include "support/catch.hpp"
#include "unit/dense/dense_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
using dense::Shape;
using dense::Type;

template <class Out, class In>
std::vector<Out> host_product(Type type, Shape shape, const std::vector<In>& a, const std::vector<In>& b) {
  std::vector<Out> c(std::size_t{shape.rows} * shape.cols, static_cast<Out>(77));
  const dense::Request request{.kernel = "host-naive", .type = type, .tile = 0, .shape = shape, .runs = 1};
  dense::multiply(request, bytes_of(a), bytes_of(b), writable_bytes_of(c));
  return c;
}

template <class Out, class In, class Finish>
void check_against_exact(Type type, Shape shape, std::int64_t low, std::int64_t high, std::uint64_t seed,
                         const Finish& finish) {
  const auto a = random_elements<In>(std::size_t{shape.rows} * shape.inner, low, high, seed);
  const auto b = random_elements<In>(std::size_t{shape.inner} * shape.cols, low, high, seed + 1000);
  std::vector<Out> expected;
  for (const Int128 sum : exact_product(shape, a, b)) expected.push_back(finish(sum));
  INFO(type_name(type) << " " << shape.rows << "x" << shape.inner << "x" << shape.cols << " seed " << seed);
  CHECK((host_product<Out, In>(type, shape, a, b) == expected));
}

constexpr std::int64_t kMinInt = std::numeric_limits<std::int32_t>::min();
constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();

}  // namespace

TEST_CASE("host-naive: a product by hand, sides all different", "[dense][host]") {
  const Shape shape{.rows = 2, .inner = 3, .cols = 4};
  const std::vector<float> a = {1, 2, 3, 4, 5, 6};
  const std::vector<float> b = {1, 0, 2, -1, 0, 1, 3, -2, 0.5, 0, 0, 4};
  CHECK(host_product<float>(Type::f32, shape, a, b) == std::vector<float>{2.5, 2, 8, 7, 7, 5, 23, 10});
}

TEST_CASE("host-naive: the ends of every type", "[dense][host]") {
  const Shape one{.rows = 1, .inner = 2, .cols = 1};
  using Ints = std::vector<std::int32_t>;
  CHECK(host_product<std::int32_t>(Type::i32, one, Ints{INT32_MAX, 1}, Ints{1, 1}) == Ints{INT32_MIN});
  CHECK(host_product<std::int32_t>(Type::i32, one, Ints{INT32_MIN, 0}, Ints{-1, 5}) == Ints{INT32_MIN});
  CHECK(host_product<std::int32_t>(Type::i32, one, Ints{65536, 3}, Ints{65536, -4}) == Ints{-12});
  using Shorts = std::vector<std::uint16_t>;
  using Words = std::vector<std::uint32_t>;
  // 65535 * 65535 + 131070 = 2^32 - 1: the last sum that fits.
  CHECK(host_product<std::uint32_t>(Type::u16, one, Shorts{65535, 65535}, Shorts{65535, 2}) == Words{UINT32_MAX});
  CHECK(host_product<std::uint32_t>(Type::u16, one, Shorts{65535, 65535}, Shorts{65535, 1}) == Words{4294901760});
  CHECK(host_product<std::uint32_t>(Type::u16, one, Shorts{65535, 65535}, Shorts{65535, 65535}) == Words{UINT32_MAX});
}

TEST_CASE("host-naive: random shapes against exact sums", "[dense][host]") {
  const auto exact_f32 = [](Int128 sum) { return static_cast<float>(static_cast<std::int64_t>(sum)); };
  for (const std::uint64_t seed : {1, 2, 3}) {
    std::mt19937_64 random(seed);
    for (int round = 0; round < 20; ++round) {
      const auto side = [&] { return static_cast<std::uint32_t>(1 + random() % 37); };
      const Shape shape{.rows = side(), .inner = side(), .cols = side()};
      check_against_exact<std::int32_t, std::int32_t>(Type::i32, shape, kMinInt, kMaxInt, seed, wrapped);
      check_against_exact<std::uint32_t, std::uint16_t>(Type::u16, shape, 0, 65535, seed, clamped);
      check_against_exact<std::uint32_t, std::uint16_t>(Type::u16, shape, 0, 15000, seed, clamped);
      check_against_exact<float, float>(Type::f32, shape, -100, 100, seed, exact_f32);
    }
  }
}

TEST_CASE("host-naive: shapes where a grid from the wrong sides goes wrong", "[dense][host]") {
  const std::vector<Shape> shapes = {{.rows = 128, .inner = 5, .cols = 128},  {.rows = 5, .inner = 128, .cols = 5},
                                     {.rows = 1, .inner = 512, .cols = 1},    {.rows = 256, .inner = 1, .cols = 256},
                                     {.rows = 100, .inner = 10, .cols = 300}, {.rows = 300, .inner = 10, .cols = 1}};
  for (const Shape shape : shapes) {
    check_against_exact<std::int32_t, std::int32_t>(Type::i32, shape, -10, 10, 1, wrapped);
    check_against_exact<std::uint32_t, std::uint16_t>(Type::u16, shape, 0, 65535, 1, clamped);
  }
}
