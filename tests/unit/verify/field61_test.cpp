// The arithmetic of the proof against 128-bit integers, and its random vector.
#include <random>
#include <set>
#include <vector>

#include "support/catch.hpp"
#include "verify/random_vector.hpp"

namespace {

using namespace spmm;
using Wide = unsigned __int128;

constexpr std::uint64_t kPrime = 2305843009213693951u;

/// Numbers around every border, and random ones.
std::vector<std::uint64_t> interesting(bool below_prime) {
  std::vector<std::uint64_t> all = {0, 1, 2, kPrime - 1, kPrime - 2, kPrime / 2, 1u << 31, 0xFFFF'FFFFu};
  if (!below_prime) {
    for (const std::uint64_t x : {kPrime, kPrime + 1, 2 * kPrime, 2 * kPrime + 1, 7 * kPrime, ~std::uint64_t{0}})
      all.push_back(x);
  }
  std::mt19937_64 random(5);
  for (int x = 0; x < 200; ++x) all.push_back(below_prime ? random() % kPrime : random());
  return all;
}

}  // namespace

TEST_CASE("field: every operation as with 128-bit integers") {
  for (const std::uint64_t x : interesting(false)) CHECK(reduce61(x) == x % kPrime);
  for (const std::uint64_t x : interesting(true)) {
    for (const std::uint64_t y : interesting(true)) {
      REQUIRE(add61(x, y) == static_cast<std::uint64_t>((Wide{x} + y) % kPrime));
      REQUIRE(subtract61(x, y) == static_cast<std::uint64_t>((Wide{x} + kPrime - y) % kPrime));
      REQUIRE(multiply61(x, y) == static_cast<std::uint64_t>(Wide{x} * y % kPrime));
      REQUIRE(reduce61((Wide{x} << 63) + y) == static_cast<std::uint64_t>(((Wide{x} << 63) + y) % kPrime));
    }
  }
}

TEST_CASE("random vector: products of three tables, the same for the same key, another one for each other key") {
  const MatrixHeader header{.n = 3000, .m = 3, .num_blocks = 0};
  const auto all_of = [&](std::uint64_t key) {
    const RandomVector x(key, header);
    std::vector<std::uint64_t> all(header.n);
    for (std::uint32_t j = 0; j < header.blocks_per_side(); ++j) x.block(j, all.data() + std::size_t{3} * j);
    return all;
  };
  const std::vector<std::uint64_t> one = all_of(1);
  CHECK(one == all_of(1));
  std::set<std::uint64_t> seen(one.begin(), one.end());
  for (const std::uint64_t key : {2u, 0u, 0u}) {
    const std::vector<std::uint64_t> other = all_of(key);
    seen.insert(other.begin(), other.end());
  }
  CHECK(seen.size() == std::size_t{4} * header.n);
  CHECK(*seen.rbegin() < kPrime);
  // X[j m + c] = outer[j] inner[c]: the ratio of two columns is that of every block.
  for (std::uint32_t j = 1; j < header.blocks_per_side(); ++j) {
    REQUIRE(multiply61(one[std::size_t{3} * j], one[1]) == multiply61(one[std::size_t{3} * j + 1], one[0]));
  }
}

TEST_CASE("random vector: the last block column of the largest matrix has an entry") {
  const RandomVector x(1, {.n = 0xFFFF'FFFFu, .m = 1, .num_blocks = 0});
  std::uint64_t last = kPrime;
  x.block(0xFFFF'FFFEu, &last);
  CHECK(last < kPrime);
  CHECK(RandomVector::bytes({.n = 0xFFFF'FFFFu, .m = 1, .num_blocks = 0}) <= (1u << 20) + 64);
  CHECK(RandomVector::bytes({.n = 1, .m = 1, .num_blocks = 0}) > 0);
}
