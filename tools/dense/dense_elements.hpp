// Element types of dense products as C++ types, and elements read from plain bytes.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "spmm/saturate.hpp"
#include "tools/dense/dense_multiply.hpp"

namespace spmm::dense {

/// What a Type stands for.
/// In, Out: elements of A and B, of C. Sum: the running sum as C programs write it. Wide: holds the sum for the check,
/// exactly where the type is exact.
template <class InType, class OutType, class SumType, class WideType>
struct Elements {
  using In = InType;
  using Out = OutType;
  using Sum = SumType;
  using Wide = WideType;
};

using Int32Elements = Elements<std::int32_t, std::int32_t, std::uint32_t, std::uint32_t>;  // an int32_t may not wrap
using FloatElements = Elements<float, float, float, double>;
using Uint16Elements = Elements<std::uint16_t, std::uint32_t, std::uint64_t, std::uint64_t>;

/// Sums as elements of C; those in double stay as they are.
inline std::int32_t finish(std::uint32_t sum) {
  return static_cast<std::int32_t>(sum);
}
inline std::uint32_t finish(std::uint64_t sum) {
  return saturate(sum);
}
template <std::floating_point T>
T finish(T sum) {
  return sum;
}

/// Calls body(Elements) of the type.
template <class Body>
decltype(auto) for_elements(Type type, const Body& body) {
  if (type == Type::i32) return body(Int32Elements());
  if (type == Type::f32) return body(FloatElements());
  return body(Uint16Elements());
}

/// Element `at` of an array of T.
template <class T>
T load(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(std::span<std::byte> bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at * sizeof(T), &value, sizeof(T));
}

}  // namespace spmm::dense
