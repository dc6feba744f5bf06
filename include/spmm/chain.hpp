// The arithmetic contract of all element types but u16, in one place. An element of C is one chain:
//   sum = +0; for the pairs of its block by ascending inner block index, for their inner elements ascending:
//   sum = fma(a, b, sum)
// in the type of the result. Stored pairs alone take part: stored zeros do, absent blocks do not. Integers are exact
// modulo 2^64. A NaN of the result has one pattern, since devices differ in theirs.
// u16 is here for products whose C blocks are given: their sums saturate, as saturate.hpp has it.
// Compiled without contraction, fast-math, or flush to zero; a chain is never cut along the inner index.
#pragma once

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "spmm/element_types.hpp"
#include "spmm/saturate.hpp"

namespace spmm {

static_assert(FLT_EVAL_METHOD == 0, "sums must have the precision of their type");

/// How a type is multiplied: operands as Wide, the sum of one pair as Part, that of a C block as Sum. Where Part is not
/// Sum, sums of a pair are exact and are added to those of the C block.
template <class Wide_, class Part_, class Sum_>
struct ChainTypes {
  using Wide = Wide_;                                              ///< of operands
  using Part = Part_;                                              ///< of the sum of one pair
  using Sum = Sum_;                                                ///< of the sum of a C block
  static constexpr bool kIsFloat = std::is_floating_point_v<Sum>;  ///< rounds
  static constexpr bool kIsSplit = !std::is_same_v<Part, Sum>;     ///< sums of pairs are added to those of C
};

/// The row of the table for operands of type T.
template <class T>
struct Chain : ChainTypes<std::int64_t, std::uint64_t, std::uint64_t> {};
template <>
struct Chain<std::uint16_t> : ChainTypes<std::uint32_t, std::uint64_t, std::uint32_t> {};  // 64 * 2^32 fits
template <>
struct Chain<double> : ChainTypes<double, double, double> {};
template <>
struct Chain<float> : ChainTypes<float, float, float> {};
template <>
struct Chain<Half> : ChainTypes<float, float, float> {};
template <>
struct Chain<BFloat16> : ChainTypes<float, float, float> {};
template <>
struct Chain<std::int8_t> : ChainTypes<std::int32_t, std::int32_t, std::uint64_t> {};  // 64 * 2^14 fits
template <>
struct Chain<std::uint8_t> : ChainTypes<std::int32_t, std::int32_t, std::uint64_t> {};

/// Exact.
SPMM_HOST_DEVICE inline float to_float(Half half) {
#ifdef __CUDA_ARCH__
  float out;
  asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(half.bits));
  return out;
#else
  const std::uint32_t sign = (half.bits & 0x8000u) << 16;
  const std::uint32_t exponent = half.bits >> 10 & 31u;
  const std::uint32_t fraction = half.bits & 1023u;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F80'0000u | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  constexpr float kLeast = 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(static_cast<float>(fraction) * kLeast));
#endif
}

/// Exact.
SPMM_HOST_DEVICE inline float to_float(BFloat16 half) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(std::uint32_t{half.bits} << 16);
#else
  return std::bit_cast<float>(std::uint32_t{half.bits} << 16);
#endif
}

/// An operand as it is multiplied.
template <class T>
SPMM_HOST_DEVICE inline typename Chain<T>::Wide widen(T x) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return to_float(x);
  } else {
    return static_cast<typename Chain<T>::Wide>(x);
  }
}

/// One link of a chain.
SPMM_HOST_DEVICE inline double multiply_add(double a, double b, double sum) {
#ifdef __CUDA_ARCH__
  return __fma_rn(a, b, sum);
#else
  return std::fma(a, b, sum);
#endif
}
/// One link of a chain.
SPMM_HOST_DEVICE inline float multiply_add(float a, float b, float sum) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, sum);
#else
  return std::fma(a, b, sum);
#endif
}
/// One link of the exact sum of a pair.
SPMM_HOST_DEVICE inline std::int32_t multiply_add(std::int32_t a, std::int32_t b, std::int32_t sum) {
  return a * b + sum;
}
/// One link of a chain, modulo 2^64.
SPMM_HOST_DEVICE inline std::uint64_t multiply_add(std::int64_t a, std::int64_t b, std::uint64_t sum) {
  return static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b) + sum;
}
/// One link of the exact sum of a pair.
SPMM_HOST_DEVICE inline std::uint64_t multiply_add(std::uint32_t a, std::uint32_t b, std::uint64_t sum) {
  return std::uint64_t{a} * b + sum;
}
/// Saturates. Values: a, b of u16.
SPMM_HOST_DEVICE inline std::uint32_t multiply_add(std::int64_t a, std::int64_t b, std::uint32_t sum) {
  const std::uint32_t all = static_cast<std::uint32_t>(a) * static_cast<std::uint32_t>(b) + sum;
  return all < sum ? kMaxVal : all;
}

/// The sum of a pair is added to that of its C block, where they have two types.
SPMM_HOST_DEVICE inline void add_part(std::uint64_t& sum, std::int32_t part) {
  sum += static_cast<std::uint64_t>(std::int64_t{part});
}
/// Saturates.
SPMM_HOST_DEVICE inline void add_part(std::uint32_t& sum, std::uint64_t part) {
  sum = saturate(sum + part);
}

/// A sum as it is stored: NaN has one pattern.
SPMM_HOST_DEVICE inline double stored(double sum) {
#ifdef __CUDA_ARCH__
  return sum != sum ? __longlong_as_double(0x7FF8'0000'0000'0000LL) : sum;
#else
  return sum != sum ? std::bit_cast<double>(std::uint64_t{0x7FF8'0000'0000'0000u}) : sum;
#endif
}
/// NaN has one pattern.
SPMM_HOST_DEVICE inline float stored(float sum) {
#ifdef __CUDA_ARCH__
  return sum != sum ? __uint_as_float(0x7FC0'0000u) : sum;
#else
  return sum != sum ? std::bit_cast<float>(0x7FC0'0000u) : sum;
#endif
}
/// As it is.
SPMM_HOST_DEVICE inline std::uint64_t stored(std::uint64_t sum) {
  return sum;
}
/// As it is.
SPMM_HOST_DEVICE inline std::uint32_t stored(std::uint32_t sum) {
  return sum;
}

/// What becomes of a chain: alpha * chain + beta * c. Floats: fma(alpha, chain, beta * c), with beta * c rounded
/// before; nothing is added if beta is 0, and the chain stays as it is if alpha is 1, too. Integers: modulo 2^64.
template <class Sum>
struct Scaling {
  Sum alpha{1};            ///< of the chain
  Sum beta{0};             ///< of c
  const Sum* c = nullptr;  ///< as the result lies, which it may be; not read if beta is 0

  /// Whether the chain is stored as it is.
  [[nodiscard]] SPMM_HOST_DEVICE bool is_plain() const { return alpha == Sum{1} && beta == Sum{0}; }

  /// An element of the result. Values: sum = its chain; old = that of c, anything if beta is 0.
  [[nodiscard]] SPMM_HOST_DEVICE Sum element(Sum sum, Sum old) const {
    if constexpr (std::is_floating_point_v<Sum>) {
      constexpr auto kNothing = static_cast<Sum>(-0.0);  // x + -0 is x, of all x
      return stored(multiply_add(alpha, sum, beta == 0 ? kNothing : multiply_add(beta, old, kNothing)));
    } else {
      return alpha * sum + beta * old;
    }
  }

  /// The same at a place of c, on the host.
  [[nodiscard]] Sum element_at(std::uint64_t place, Sum sum) const {
    return is_plain() ? stored(sum) : element(sum, beta == 0 ? Sum{0} : c[place]);
  }
};

/// Of numbers in host memory that are known by their type alone. Shapes: alpha, beta [1], null: 1 and 0.
template <class Sum>
Scaling<Sum> scaling_of(const void* alpha, const void* beta, const void* c) {
  Scaling<Sum> scaling{.c = static_cast<const Sum*>(c)};
  if (alpha != nullptr) scaling.alpha = *static_cast<const Sum*>(alpha);
  if (beta != nullptr) scaling.beta = *static_cast<const Sum*>(beta);
  return scaling;
}

}  // namespace spmm
