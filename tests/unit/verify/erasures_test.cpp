// True sums of saturated elements from equations.
#include "verify/rows/erasures.hpp"

#include <random>
#include <vector>

#include "support/catch.hpp"

namespace {

using namespace spmm;

constexpr std::uint64_t kMostSum = std::uint64_t{1} << 50;

/// Equations that hold for these sums.
Erasures equations(const std::vector<std::uint64_t>& sums, std::mt19937_64& random) {
  Erasures e{.num = static_cast<std::uint32_t>(sums.size())};
  for (std::uint32_t k = 0; k < e.num; ++k) {
    for (std::uint32_t q = 0; q <= e.num; ++q) {
      e.x[k][q] = random() % kPrime61;
      e.d[q] = add61(e.d[q], multiply61(sums[k], e.x[k][q]));
    }
  }
  return e;
}

/// x[k] := factor x[l], and d with it.
Erasures with_equal_unknowns(const std::vector<std::uint64_t>& sums, std::mt19937_64& random) {
  Erasures e = equations(sums, random);
  e.x[1] = e.x[0];
  e.d = {};
  for (std::uint32_t k = 0; k < e.num; ++k) {
    for (std::uint32_t q = 0; q <= e.num; ++q) e.d[q] = add61(e.d[q], multiply61(sums[k], e.x[k][q]));
  }
  return e;
}

}  // namespace

TEST_CASE("erasures: sums that saturate are accepted, up to three") {
  std::mt19937_64 random(1);
  for (int x = 0; x < 200; ++x) {
    std::vector<std::uint64_t> sums;
    for (std::uint32_t k = 0; k <= kMaxSpareColumns; ++k) {
      CHECK(decode(equations(sums, random), kMostSum) == Decoded::right);
      sums.push_back(kMaxVal + (x % 2 == 0 ? 0 : random() % (kMostSum - kMaxVal)));
    }
  }
}

TEST_CASE("erasures: a sum below the limit, an impossible one and a broken equation are wrong") {
  std::mt19937_64 random(2);
  for (std::uint32_t num = 1; num <= kMaxSpareColumns; ++num) {
    for (std::uint32_t at = 0; at < num; ++at) {
      std::vector<std::uint64_t> sums(num, std::uint64_t{kMaxVal} + 5);
      sums[at] = kMaxVal - 1;
      CHECK(decode(equations(sums, random), kMostSum) == Decoded::wrong);
      sums[at] = 0;
      CHECK(decode(equations(sums, random), kMostSum) == Decoded::wrong);
      sums[at] = kMostSum + 1;
      CHECK(decode(equations(sums, random), kMostSum) == Decoded::wrong);
      sums[at] = kMostSum;
      CHECK(decode(equations(sums, random), kMostSum) == Decoded::right);
      for (std::uint32_t q = 0; q <= num; ++q) {
        Erasures broken = equations(sums, random);
        broken.d[q] = add61(broken.d[q], 1);
        CHECK(decode(broken, kMostSum) == Decoded::wrong);
      }
    }
  }
  Erasures nothing;
  nothing.d[0] = 1;
  CHECK(decode(nothing, kMostSum) == Decoded::wrong);
}

TEST_CASE("erasures: equations that do not tell are singular, pivots of zero are not") {
  std::mt19937_64 random(3);
  const std::uint64_t sum = std::uint64_t{kMaxVal} + 9;
  CHECK(decode(with_equal_unknowns({sum, sum}, random), kMostSum) == Decoded::singular);
  CHECK(decode(with_equal_unknowns({sum, sum, sum}, random), kMostSum) == Decoded::singular);
  Erasures zero = equations({sum}, random);
  zero.x[0][0] = 0;
  zero.d[0] = 0;
  CHECK(decode(zero, kMostSum) == Decoded::singular);
  for (std::uint32_t at = 0; at < 2; ++at) {  // the first pivot is in another equation
    Erasures swapped = equations({sum, sum + 1, sum + 2}, random);
    for (std::uint32_t q = 0; q <= at; ++q) {
      swapped.d[q] = subtract61(swapped.d[q], multiply61(sum, swapped.x[0][q]));
      swapped.x[0][q] = 0;
    }
    CHECK(decode(swapped, kMostSum) == Decoded::right);
    swapped.d[3] = add61(swapped.d[3], 1);
    CHECK(decode(swapped, kMostSum) == Decoded::wrong);
  }
}
