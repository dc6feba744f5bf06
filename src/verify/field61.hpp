// Arithmetic modulo p = 2^61 - 1, the field of the equations behind --verify full.
#pragma once

#include <cstdint>

namespace spmm {

/// A Mersenne prime: 2^61 = 1 modulo p, so that a remainder is a mask, a shift and an addition.
inline constexpr std::uint64_t kPrime61 = (std::uint64_t{1} << 61) - 1;

/// x modulo p, for any x.
constexpr std::uint64_t reduce61(std::uint64_t x) {
  const std::uint64_t folded = (x & kPrime61) + (x >> 61);
  return folded >= kPrime61 ? folded - kPrime61 : folded;
}

/// x modulo p. Values: x < 2^125.
constexpr std::uint64_t reduce61(unsigned __int128 x) {
  return reduce61((static_cast<std::uint64_t>(x) & kPrime61) + static_cast<std::uint64_t>(x >> 61));
}

/// Values of all that follow: x, y < p, and so is the result.
constexpr std::uint64_t add61(std::uint64_t x, std::uint64_t y) {
  const std::uint64_t sum = x + y;
  return sum >= kPrime61 ? sum - kPrime61 : sum;
}

constexpr std::uint64_t subtract61(std::uint64_t x, std::uint64_t y) {
  return x >= y ? x - y : x + kPrime61 - y;
}

constexpr std::uint64_t multiply61(std::uint64_t x, std::uint64_t y) {
  return reduce61(static_cast<unsigned __int128>(x) * y);
}

}  // namespace spmm
