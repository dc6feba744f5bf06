// Types of elements, and of the results of their products. Each row of the table is a contract of its own (chain.hpp):
// the same operands give the same bits on every device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <type_traits>

#include "spmm/types.hpp"

namespace spmm {

/// A number of 16 bits, as IEEE 754 has it: 5 bits of exponent, 10 of fraction.
struct Half {
  std::uint16_t bits = 0;  ///< as they lie in memory
  friend bool operator==(const Half&, const Half&) = default;
};

/// The upper half of a float: 8 bits of exponent, 7 of fraction.
struct BFloat16 {
  std::uint16_t bits = 0;  ///< as they lie in memory
  friend bool operator==(const BFloat16&, const BFloat16&) = default;
};

/// Type of the elements of both operands. The result has another one: result_of().
/// Values: u16 gives u32, which saturates; f64 gives f64; f32, f16, bf16 give f32; all integers but u16 give i64,
/// modulo 2^64.
enum class ElementType : std::uint8_t { u16, f64, f32, f16, bf16, i8, u8, i16, i32, u32, i64 };

/// "f64"
constexpr std::string_view element_name(ElementType type) {
  constexpr std::string_view kNames[] = {"u16", "f64", "f32", "f16", "bf16", "i8", "u8", "i16", "i32", "u32", "i64"};
  return kNames[static_cast<std::size_t>(type)];
}

/// Bytes of an element.
constexpr std::size_t element_bytes(ElementType type) {
  constexpr std::size_t kBytes[] = {2, 8, 4, 2, 2, 1, 1, 2, 4, 4, 8};
  return kBytes[static_cast<std::size_t>(type)];
}

/// Bytes of one packed record with such elements.
constexpr std::uint64_t record_bytes(ElementType type, std::uint32_t m) {
  return kIndexBytes + std::uint64_t{m} * m * element_bytes(type);
}

/// Type of the elements of a product.
constexpr ElementType result_of(ElementType type) {
  using enum ElementType;
  constexpr ElementType kResults[] = {u32, f64, f32, f32, f32, i64, i64, i64, i64, i64, i64};
  return kResults[static_cast<std::size_t>(type)];
}

/// X(C++ type, name) for all types but u16.
#define SPMM_CHAIN_TYPES(X) \
  X(double, f64)            \
  X(float, f32)             \
  X(Half, f16)              \
  X(BFloat16, bf16)         \
  X(std::int8_t, i8)        \
  X(std::uint8_t, u8)       \
  X(std::int16_t, i16) X(std::int32_t, i32) X(std::uint32_t, u32) X(std::int64_t, i64)

/// The same for all types.
#define SPMM_ELEMENT_TYPES(X) X(std::uint16_t, u16) SPMM_CHAIN_TYPES(X)

/// The element type of a C++ type.
template <class T>
inline constexpr ElementType kElementType = ElementType::u16;
#define SPMM_ELEMENT_TYPE(T, name) \
  template <>                      \
  inline constexpr ElementType kElementType<T> = ElementType::name;
SPMM_CHAIN_TYPES(SPMM_ELEMENT_TYPE)
#undef SPMM_ELEMENT_TYPE

/// Type of the elements of a product of operands of type T.
template <class T>
using ProductOf =
    std::conditional_t<std::is_same_v<T, double>, double,
                       std::conditional_t<std::is_same_v<T, std::uint16_t>, std::uint32_t,
                                          std::conditional_t<std::is_integral_v<T>, std::int64_t, float>>>;

/// Returns call.operator() with the C++ type of the elements as its template argument.
template <class Call>
auto with_element_type(ElementType type, const Call& call) {
  switch (type) {
#define SPMM_CALL(T, name) \
  case ElementType::name:  \
    return call.template operator()<T>();
    SPMM_ELEMENT_TYPES(SPMM_CALL)
#undef SPMM_CALL
    default:
      throw std::logic_error("no type of elements");
  }
}

}  // namespace spmm
