// Element types of dense products as C++ types, and elements read from plain bytes.
#pragma once

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
template <Type type>
struct Elements;

template <>
struct Elements<Type::i32> {
  using In = std::int32_t;
  using Out = std::int32_t;
  using Sum = std::uint32_t;  // wraps, which int32_t may not
  using Wide = std::uint32_t;
  static Out finish(Sum sum) { return static_cast<Out>(sum); }
};

template <>
struct Elements<Type::f32> {
  using In = float;
  using Out = float;
  using Sum = float;
  using Wide = double;
  static Sum finish(Sum sum) { return sum; }
  static Wide finish(Wide sum) { return sum; }
};

template <>
struct Elements<Type::u16> {
  using In = std::uint16_t;
  using Out = std::uint32_t;
  using Sum = std::uint64_t;
  using Wide = std::uint64_t;
  static Out finish(Sum sum) { return saturate(sum); }
};

/// Calls body(Elements<type>()).
template <class Body>
decltype(auto) for_elements(Type type, const Body& body) {
  if (type == Type::i32) return body(Elements<Type::i32>());
  if (type == Type::f32) return body(Elements<Type::f32>());
  return body(Elements<Type::u16>());
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
