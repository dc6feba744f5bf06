// Chains of some rows of C, compiled once for each instruction set: a file defines SPMM_ISA and kVectorBytes before.
// A vector is a piece of a row of a C block. Its lanes are chains of their own, so that every width gives the same
// bits.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cpu/chains/chains.hpp"
#include "cpu/simd/target.hpp"

SPMM_ISA_BEGIN
namespace spmm::cpu {
namespace {

template <class T, std::uint32_t kLanes>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kLanes * sizeof(T)), aligned(alignof(T)), may_alias));
};

/// Most lanes that divide the side.
template <class T, std::uint32_t M>
constexpr std::uint32_t lanes_of() {
  std::uint32_t lanes = 1;
  while (M % (2 * lanes) == 0 && 2 * lanes * sizeof(T) <= kVectorBytes) lanes *= 2;
  return lanes;
}

/// One link of the chain of each lane. The compiler makes one instruction of it.
template <class Vector, std::uint32_t kLanes>
inline Vector multiply_add_lanes(Vector a, Vector b, Vector sum) {
  Vector out{};
#pragma GCC unroll 16
  for (std::uint32_t l = 0; l < kLanes; ++l) out[l] = multiply_add(a[l], b[l], sum[l]);
  return out;
}

/// c += a * b of blocks of side M whose operands have the type of the sums, rows of C in registers.
template <class Sum, std::uint32_t M>
inline void add_vectors(const Sum* a, const Sum* b, Sum* c) {
  constexpr std::uint32_t kLanes = lanes_of<Sum, M>();
  constexpr std::uint32_t kVectors = M / kLanes;  // of a row
  constexpr std::uint32_t kRows = kVectors >= 4 ? 2 : kVectors == 2 ? 4 : M < 8 ? M : 8;
  using Vector = typename VectorOf<Sum, kLanes>::Type;
  for (std::uint32_t r0 = 0; r0 < M; r0 += kRows) {
    Vector sums[kRows * kVectors];
#pragma GCC unroll 64
    for (std::uint32_t x = 0; x < kRows * kVectors; ++x) {
      sums[x] = *reinterpret_cast<const Vector*>(c + (r0 + x / kVectors) * M + x % kVectors * kLanes);
    }
    for (std::uint32_t k = 0; k < M; ++k) {
#pragma GCC unroll 16
      for (std::uint32_t v = 0; v < kVectors; ++v) {
        const Vector right = *reinterpret_cast<const Vector*>(b + k * M + v * kLanes);
#pragma GCC unroll 16
        for (std::uint32_t r = 0; r < kRows; ++r) {
          const Sum left = a[(r0 + r) * M + k];
          Vector& sum = sums[r * kVectors + v];
          sum = multiply_add_lanes<Vector, kLanes>(left - Vector{}, right, sum);
        }
      }
    }
#pragma GCC unroll 64
    for (std::uint32_t x = 0; x < kRows * kVectors; ++x) {
      *reinterpret_cast<Vector*>(c + (r0 + x / kVectors) * M + x % kVectors * kLanes) = sums[x];
    }
  }
}

/// c += a * b of one pair. Values: M = m, or 0.
template <class T, std::uint32_t M>
inline void add_pair(const T* a, const T* b, typename Chain<T>::Sum* c, std::uint32_t m) {
  using Sum = typename Chain<T>::Sum;
  if constexpr (M != 0 && std::is_same_v<T, Sum>) {
    add_vectors<Sum, M>(a, b, c);
  } else {
    const std::uint32_t side = M == 0 ? m : M;
    for (std::uint32_t r = 0; r < side; ++r) {
      for (std::uint32_t k = 0; k < side; ++k) {
        const auto left = widen(a[r * side + k]);
        for (std::uint32_t j = 0; j < side; ++j) {
          Sum& sum = c[r * side + j];
          if constexpr (Chain<T>::kIsFloat) {
            sum = multiply_add(left, widen(b[k * side + j]), sum);
          } else {
            sum = multiply_add(std::int64_t{left}, std::int64_t{widen(b[k * side + j])}, sum);
          }
        }
      }
    }
  }
}

template <class T, std::uint32_t M>
void multiply_rows(const ChainProduct<T>& product, std::uint64_t begin, std::uint64_t end, std::byte* scratch) {
  using Sum = typename Chain<T>::Sum;
  const ChainIndex& a = product.a.at;
  const ChainIndex& b = product.b.at;
  const std::uint64_t elements = std::uint64_t{product.m} * product.m;
  const std::uint64_t* const c_offsets = product.pattern.offsets.data();
  const std::uint32_t* const c_columns = product.pattern.columns.data();
  for (std::uint64_t row = begin; row < end; ++row) {
    Sum* const c_begin = product.c + c_offsets[row] * elements;
    Sum* const c_end = product.c + c_offsets[row + 1] * elements;
    if constexpr (M == 1) {  // sums stay at their columns until the row ends
      auto* const sums = reinterpret_cast<Sum*>(scratch);
      for (std::uint64_t x = c_offsets[row]; x < c_offsets[row + 1]; ++x) sums[c_columns[x]] = 0;
      for (std::uint64_t x = a.offsets[row]; x < a.offsets[row + 1]; ++x) {
        const T* const left = product.a.block(x, 1);
        for (std::uint64_t y = b.offsets[a.columns[x]]; y < b.offsets[a.columns[x] + 1]; ++y) {
          add_pair<T, 1>(left, product.b.block(y, 1), sums + b.columns[y], 1);
        }
      }
      for (std::uint64_t x = c_offsets[row]; x < c_offsets[row + 1]; ++x) {
        product.c[x] = product.scaling.element_at(x, sums[c_columns[x]]);
      }
      continue;
    }
    auto* const places = reinterpret_cast<std::uint64_t*>(scratch);  // in C, + 1, of the columns of this row
    for (std::uint64_t x = c_offsets[row]; x < c_offsets[row + 1]; ++x) places[c_columns[x]] = x + 1;
    for (std::uint64_t x = a.offsets[row]; x < a.offsets[row + 1]; ++x) {
      const std::uint32_t k = a.columns[x];
      for (std::uint64_t y = b.offsets[k]; y < b.offsets[k + 1]; ++y) {
        const std::uint64_t place = places[b.columns[y]];
        if (place <= c_offsets[row]) continue;  // of a row before: C has no such block
        add_pair<T, M>(product.a.block(x, elements), product.b.block(y, elements), product.c + (place - 1) * elements,
                       product.m);
      }
    }
    if (!product.scaling.is_plain()) {
      const auto place = static_cast<std::uint64_t>(c_begin - product.c);
      for (Sum* sum = c_begin; sum != c_end; ++sum) {
        *sum = product.scaling.element_at(place + static_cast<std::uint64_t>(sum - c_begin), *sum);
      }
    } else if constexpr (Chain<T>::kIsFloat) {
      for (Sum* sum = c_begin; sum != c_end; ++sum) *sum = stored(*sum);
    }
  }
}

template <class T>
MultiplyRows<T> rows_for(std::uint32_t m) {
  switch (m) {
    case 1:
      return multiply_rows<T, 1>;
    case 2:
      return multiply_rows<T, 2>;
    case 3:
      return multiply_rows<T, 3>;
    case 4:
      return multiply_rows<T, 4>;
    case 8:
      return multiply_rows<T, 8>;
    case 16:
      return multiply_rows<T, 16>;
    case 32:
      return multiply_rows<T, 32>;
    default:
      return multiply_rows<T, 0>;
  }
}

}  // namespace
}  // namespace spmm::cpu
SPMM_ISA_END
