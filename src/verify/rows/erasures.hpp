// One element row with saturated elements: their true sums from the equations.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "spmm/saturate.hpp"
#include "verify/rows/state.hpp"
#include "verify/sums/field61.hpp"

namespace spmm {

enum class Decoded : std::uint8_t {
  right,
  wrong,
  singular,  ///< the equations do not tell: with a probability of about s / p
};

/// sum over k < s of T_k x[k][q] = d[q] for all q <= s; every T_k must be a sum that saturates.
struct Erasures {
  std::uint32_t num = 0;                                                          ///< s
  std::array<std::array<std::uint64_t, kMaxProofColumns>, kMaxSpareColumns> x{};  ///< [s, s + 1]
  std::array<std::uint64_t, kMaxProofColumns> d{};                                ///< [s + 1]
};

/// Values: num <= kMaxSpareColumns; most_sum = the largest sum that there can be.
inline Decoded decode(const Erasures& given, std::uint64_t most_sum) {
  Erasures e = given;
  const std::uint32_t s = e.num;
  std::array<std::uint32_t, kMaxProofColumns> equation{0, 1, 2, 3};
  for (std::uint32_t k = 0; k < s; ++k) {  // eliminates T_k from all equations but one; the last one only checks
    std::uint32_t pivot = k;
    while (pivot < s && e.x[k][equation[pivot]] == 0) ++pivot;
    if (pivot == s) return Decoded::singular;
    std::swap(equation[k], equation[pivot]);
    const std::uint32_t with = equation[k];
    const std::uint64_t inverse = invert61(e.x[k][with]);
    for (std::uint32_t q = 0; q <= s; ++q) {
      if (q == with) continue;
      const std::uint64_t factor = multiply61(e.x[k][q], inverse);
      for (std::uint32_t l = k; l < s; ++l) e.x[l][q] = subtract61(e.x[l][q], multiply61(factor, e.x[l][with]));
      e.d[q] = subtract61(e.d[q], multiply61(factor, e.d[with]));
    }
  }
  if (e.d[s] != 0) return Decoded::wrong;
  for (std::uint32_t k = 0; k < s; ++k) {
    const std::uint64_t sum = multiply61(e.d[equation[k]], invert61(e.x[k][equation[k]]));
    if (sum < kMaxVal || sum > most_sum) return Decoded::wrong;
  }
  return Decoded::right;
}

}  // namespace spmm
