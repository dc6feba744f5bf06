// Chains of a range of C, compiled once for each instruction set: a file defines SPMM_ISA and SPMM_VECTOR_BYTES before.
// A vector has rows of a C block, or a piece of one. Its lanes are chains of their own, so that every width gives the
// same bits.
#pragma once

#include <cstdint>
#include <type_traits>
#if defined(SPMM_ISA)
#include <immintrin.h>
#endif

#include "cpu/chains/chains.hpp"
#include "cpu/simd/target.hpp"

SPMM_ISA_BEGIN
namespace spmm::cpu {
namespace {

template <class T, std::uint32_t kLanes>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kLanes * sizeof(T)), aligned(alignof(T)), may_alias));
};

/// Most lanes that divide the side, or the block if the side is a power of two.
template <class T, std::uint32_t M>
constexpr std::uint32_t lanes_of() {
  constexpr bool kIsPower = (M & (M - 1)) == 0;
  std::uint32_t lanes = 1;
  while ((kIsPower ? M * M : M) % (2 * lanes) == 0 && 2 * lanes * sizeof(T) <= SPMM_VECTOR_BYTES) lanes *= 2;
  return lanes;
}

/// One link of the chain of each lane.
template <class T, class Vector>
inline Vector multiply_add_lanes(Vector a, Vector b, Vector sum) {
  constexpr std::size_t kBytes = sizeof(Vector);
#if defined(SPMM_ISA)
  if constexpr (std::is_same_v<T, double> && kBytes == 64) return _mm512_fmadd_pd(a, b, sum);
  if constexpr (std::is_same_v<T, double> && kBytes == 32) return _mm256_fmadd_pd(a, b, sum);
  if constexpr (std::is_same_v<T, double> && kBytes == 16) return _mm_fmadd_pd(a, b, sum);
  if constexpr (std::is_same_v<T, float> && kBytes == 64) return _mm512_fmadd_ps(a, b, sum);
  if constexpr (std::is_same_v<T, float> && kBytes == 32) return _mm256_fmadd_ps(a, b, sum);
  if constexpr (std::is_same_v<T, float> && kBytes == 16) return _mm_fmadd_ps(a, b, sum);
#endif
  Vector out{};
#pragma GCC unroll 16
  for (std::uint32_t l = 0; l < kBytes / sizeof(T); ++l) out[l] = multiply_add(a[l], b[l], sum[l]);
  return out;
}

/// A row of M elements as often as the lanes have room for it.
template <class T, std::uint32_t M, std::uint32_t kLanes>
inline typename VectorOf<T, kLanes>::Type repeated(const T* row) {
  using Vector = typename VectorOf<T, kLanes>::Type;
#if defined(SPMM_ISA)
  constexpr std::size_t kBytes = sizeof(Vector);
  constexpr std::size_t kRowBytes = M * sizeof(T);
  // The instructions move bytes, whatever their type.
  if constexpr (kBytes == 64 && kRowBytes == 32) {
    return (Vector)_mm512_broadcast_f64x4(_mm256_loadu_pd(reinterpret_cast<const double*>(row)));
  } else if constexpr (kBytes == 64 && kRowBytes == 16) {
    return (Vector)_mm512_broadcast_f32x4(_mm_loadu_ps(reinterpret_cast<const float*>(row)));
  } else if constexpr (kBytes == 32 && kRowBytes == 16) {
    return (Vector)_mm256_broadcast_ps(reinterpret_cast<const __m128*>(row));
  }
#endif
  Vector out{};
#pragma GCC unroll 16
  for (std::uint32_t l = 0; l < kLanes; ++l) out[l] = row[l % M];
  return out;
}

/// A block of A, for all pairs of its row. Values: M = m, or 0.
template <class T, std::uint32_t M>
class LeftBlock {
 public:
  LeftBlock(const T* a, std::uint32_t m) : a_(a), m_(M == 0 ? m : M) {}

  /// c += a * b
  void add_pair(const T* b, typename Chain<T>::Sum* c) const {
    using Sum = typename Chain<T>::Sum;
    using Link = std::conditional_t<Chain<T>::kIsFloat, Sum, std::int64_t>;
    const std::uint32_t side = M == 0 ? m_ : M;
    for (std::uint32_t r = 0; r < side; ++r) {
      for (std::uint32_t k = 0; k < side; ++k) {
        const Link left = widen(a_[r * side + k]);
        for (std::uint32_t j = 0; j < side; ++j) {
          Sum& sum = c[r * side + j];
          sum = multiply_add(left, Link{widen(b[k * side + j])}, sum);
        }
      }
    }
  }

 private:
  const T* a_;
  std::uint32_t m_;
};

template <class T, std::uint32_t M>
inline constexpr bool kIsInVectors = M > 1 && std::is_same_v<T, typename Chain<T>::Sum>;

/// Operands of the sums' type: a vector has a piece of a row of C.
template <class Sum, std::uint32_t M>
requires(kIsInVectors<Sum, M>&& lanes_of<Sum, M>() <= M) class LeftBlock<Sum, M> {
 public:
  LeftBlock(const Sum* a, std::uint32_t) : a_(a) {}

  void add_pair(const Sum* b, Sum* c) const {
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
            const Sum left = a_[(r0 + r) * M + k];
            Vector& sum = sums[r * kVectors + v];
            sum = multiply_add_lanes<Sum, Vector>(left - Vector{}, right, sum);
          }
        }
      }
#pragma GCC unroll 64
      for (std::uint32_t x = 0; x < kRows * kVectors; ++x) {
        *reinterpret_cast<Vector*>(c + (r0 + x / kVectors) * M + x % kVectors * kLanes) = sums[x];
      }
    }
  }

 private:
  static constexpr std::uint32_t kLanes = lanes_of<Sum, M>();
  static constexpr std::uint32_t kVectors = M / kLanes;  // of a row
  static constexpr std::uint32_t kRows = kVectors >= 4 ? 2 : kVectors == 2 ? 4 : M < 8 ? M : 8;
  using Vector = typename VectorOf<Sum, kLanes>::Type;

  const Sum* a_;
};

/// A vector has several rows of C, so that it needs as many elements of a column of A at once. They are spread out once
/// for all pairs.
template <class Sum, std::uint32_t M>
requires(kIsInVectors<Sum, M>&& lanes_of<Sum, M>() > M) class LeftBlock<Sum, M> {
 public:
  LeftBlock(const Sum* a, std::uint32_t) {
#pragma GCC unroll 64
    for (std::uint32_t x = 0; x < M * kVectors; ++x) {
#pragma GCC unroll 16
      for (std::uint32_t l = 0; l < kLanes; ++l) left_[x][l] = a[(x % kVectors * kLanes + l) / M * M + x / kVectors];
    }
  }

  void add_pair(const Sum* b, Sum* c) const {
    Vector sums[kVectors];
#pragma GCC unroll 16
    for (std::uint32_t v = 0; v < kVectors; ++v) sums[v] = *reinterpret_cast<const Vector*>(c + v * kLanes);
#pragma GCC unroll 16
    for (std::uint32_t k = 0; k < M; ++k) {
      const Vector right = repeated<Sum, M, kLanes>(b + k * M);
#pragma GCC unroll 16
      for (std::uint32_t v = 0; v < kVectors; ++v) {
        sums[v] = multiply_add_lanes<Sum, Vector>(left_[k * kVectors + v], right, sums[v]);
      }
    }
#pragma GCC unroll 16
    for (std::uint32_t v = 0; v < kVectors; ++v) *reinterpret_cast<Vector*>(c + v * kLanes) = sums[v];
  }

 private:
  static constexpr std::uint32_t kLanes = lanes_of<Sum, M>();
  static constexpr std::uint32_t kVectors = M * M / kLanes;  // of a block
  using Vector = typename VectorOf<Sum, kLanes>::Type;

  Vector left_[M * kVectors];
};

struct Blocks {
  std::uint64_t begin;
  std::uint64_t end;
};

/// Blocks of a row whose columns are in a range.
inline Blocks blocks_in(const ChainIndex& matrix, std::uint64_t row, const Range& range) {
  const auto first_from = [&](Blocks blocks, std::uint32_t column) {
    while (blocks.begin < blocks.end) {
      const std::uint64_t middle = (blocks.begin + blocks.end) / 2;
      (matrix.columns[middle] < column ? blocks.begin = middle + 1 : blocks.end = middle);
    }
    return blocks.begin;
  };
  Blocks blocks{matrix.offsets[row], matrix.offsets[row + 1]};
  if (range.column_begin != 0) blocks.begin = first_from(blocks, range.column_begin);
  if (range.column_end != matrix.num_columns) blocks.end = first_from(blocks, range.column_end);
  return blocks;
}

constexpr int kFirstLevel = 3;   // of the caches
constexpr int kSecondLevel = 2;  // waits for more lines of memory at a time

template <int kLevel, class T>
inline void fetch(const T* begin, std::uint64_t num) {
#pragma GCC unroll 8
  for (std::uint64_t x = 0; x < num; x += 64 / sizeof(T)) __builtin_prefetch(begin + x, 0, kLevel);
}

/// Columns of C that have a pair in a row of A, ascending. Returns their end. Calls at_pair(x, y, column) for each pair
/// of blocks x of A and y of B.
template <class T, class AtPair>
inline std::uint32_t* find_columns(const ChainProduct<T>& product, std::uint32_t row, const Range& range,
                                   ChainScratch& scratch, std::uint32_t* to, const AtPair& at_pair) {
  constexpr std::uint64_t kFirstElements = 64;
  constexpr std::uint64_t kWordsPerPair = 8;  // read in the time that sorting a column takes; an assumption
  const ChainIndex& a = product.a.at;
  const ChainIndex& b = product.b.at;
  std::uint32_t low = ~std::uint32_t{0};
  std::uint32_t high = 0;
  for (std::uint64_t x = a.offsets[row]; x < a.offsets[row + 1]; ++x) {
    const Blocks blocks = blocks_in(b, a.columns[x], range);
    if (blocks.begin == blocks.end) continue;
    const std::uint32_t first = b.columns[blocks.begin];
    const std::uint32_t last = b.columns[blocks.end - 1];
    low = first < low ? first : low;
    high = last > high ? last : high;
    if (product.m == 1 && product.b.numbers == nullptr) {  // the begin; the processor itself fetches what follows
      const std::uint64_t num = blocks.end - blocks.begin;
      fetch<kFirstLevel>(product.b.values + blocks.begin, num < kFirstElements ? num : kFirstElements);
    }
  }
  if (low > high) return to;
  const bool are_few = (high - low) / 4096 > kWordsPerPair * product.row_pairs[row];
  std::uint64_t* const bits = scratch.bits.data();
  std::uint64_t* const words = scratch.words.data();
  std::uint32_t* const begin = to;
  for (std::uint64_t x = a.offsets[row]; x < a.offsets[row + 1]; ++x) {
    if (scratch.must_stop(product.cancel)) break;
    const Blocks blocks = blocks_in(b, a.columns[x], range);
    for (std::uint64_t y = blocks.begin; y < blocks.end; ++y) {
      const std::uint32_t column = b.columns[y];
      at_pair(x, y, column);
      if (are_few) {
        *to++ = column;
      } else {
        bits[column / 64] |= std::uint64_t{1} << column % 64;
        words[column / 4096] |= std::uint64_t{1} << column / 64 % 64;
      }
    }
  }
  if (are_few) return sort_columns(begin, to);
  for (std::uint32_t x = low / 4096; x <= high / 4096; ++x) {
    for (std::uint64_t word = words[x]; word != 0; word &= word - 1) {
      const std::uint32_t w = x * 64 + static_cast<std::uint32_t>(__builtin_ctzll(word));
      for (std::uint64_t set = bits[w]; set != 0; set &= set - 1) {
        *to++ = w * 64 + static_cast<std::uint32_t>(__builtin_ctzll(set));
      }
      bits[w] = 0;
    }
    words[x] = 0;
  }
  return to;
}

template <class T, std::uint32_t M>
std::uint64_t multiply_range(const ChainProduct<T>& product, const Range& range, ChainScratch& scratch,
                             std::uint32_t* columns, typename Chain<T>::Sum* values) {
  using Sum = typename Chain<T>::Sum;
  const ChainIndex& a = product.a.at;
  const ChainIndex& b = product.b.at;
  const ChainOperand<T> right = product.b;  // a copy, which stores of vectors cannot change
  const std::uint32_t* const b_columns = right.at.columns;
  const std::uint64_t elements = M == 0 ? std::uint64_t{product.m} * product.m : M * M;
  const std::uint32_t* const begin = columns;
  for (std::uint32_t row = range.row_begin; row < range.row_end; ++row) {
    const std::uint32_t* const row_columns = columns;
    if (M == 1 && product.c == nullptr) {  // sums stay at their columns until the row ends
      auto* const sums = reinterpret_cast<Sum*>(scratch.places.data());
      columns = find_columns(product, row, range, scratch, columns,
                             [&](std::uint64_t x, std::uint64_t y, std::uint32_t column) {
                               LeftBlock<T, 1>(product.a.block(x, 1), 1).add_pair(product.b.block(y, 1), sums + column);
                             });
      for (const std::uint32_t* column = row_columns; column != columns; ++column) {
        *values++ = product.scaling.element_at(0, sums[*column]);
        sums[*column] = 0;
      }
      scratch.row_blocks[row - range.row_begin] = static_cast<std::uint64_t>(columns - row_columns);
      continue;
    }
    std::uint64_t place_in_c = 0;
    if (product.c == nullptr) {
      columns = find_columns(product, row, range, scratch, columns, [](std::uint64_t, std::uint64_t, std::uint32_t) {});
    } else {
      const Blocks given = blocks_in(*product.c, row, range);
      for (std::uint64_t x = given.begin; x < given.end; ++x) *columns++ = product.c->columns[x];
      place_in_c = given.begin * elements;
    }
    const auto num_blocks = static_cast<std::uint64_t>(columns - row_columns);
    auto* const places = reinterpret_cast<std::uint32_t*>(scratch.places.data());  // + 1, of columns of this row
    for (std::uint64_t x = 0; x < num_blocks; ++x) places[row_columns[x]] = static_cast<std::uint32_t>(x) + 1;
    __builtin_memset(values, 0, num_blocks * elements * sizeof(Sum));
    constexpr bool kIsSmall = M != 0 && M < 8 && M * M * sizeof(T) < 128;  // a pair takes less time than a fetch
    constexpr bool kIsLarge = M == 0 || M >= 16;  // a pair takes long enough to ask each time whether to go on
    for (std::uint64_t x = a.offsets[row]; x < a.offsets[row + 1]; ++x) {
      if (scratch.must_stop(product.cancel)) break;
      Blocks next{};  // of the next row of B
      if (!kIsSmall && x + 1 < a.offsets[row + 1]) next = blocks_in(b, a.columns[x + 1], range);
      const LeftBlock<T, M> left(product.a.block(x, elements), product.m);
      const Blocks blocks = blocks_in(b, a.columns[x], range);
      for (std::uint64_t y = blocks.begin; y < blocks.end; ++y) {
        if (next.begin < next.end) fetch<kSecondLevel>(right.block(next.begin++, elements), elements);
        if (kIsLarge && scratch.must_stop(product.cancel)) break;
        const std::uint32_t place = places[b_columns[y]];
        if (place == 0) {
          ++scratch.pairs_outside;
          const std::uint64_t outside = std::uint64_t{row} << 32 | b_columns[y];
          scratch.outside = outside < scratch.outside ? outside : scratch.outside;
        } else {
          left.add_pair(right.block(y, elements), values + (place - std::uint64_t{1}) * elements);
        }
      }
    }
    for (std::uint64_t x = 0; x < num_blocks; ++x) places[row_columns[x]] = 0;
    Sum* const values_end = values + num_blocks * elements;
    if (!product.scaling.is_plain()) {
      for (; values != values_end; ++values) *values = product.scaling.element_at(place_in_c++, *values);
    } else if constexpr (Chain<T>::kIsFloat) {
      for (; values != values_end; ++values) *values = stored(*values);
    }
    values = values_end;
    scratch.row_blocks[row - range.row_begin] = num_blocks;
  }
  return static_cast<std::uint64_t>(columns - begin);
}

template <class T>
MultiplyRange<T> range_for(std::uint32_t m) {
  switch (m) {
    case 1:
      return multiply_range<T, 1>;
    case 2:
      return multiply_range<T, 2>;
    case 3:
      return multiply_range<T, 3>;
    case 4:
      return multiply_range<T, 4>;
    case 8:
      return multiply_range<T, 8>;
    case 16:
      return multiply_range<T, 16>;
    case 32:
      return multiply_range<T, 32>;
    default:
      return multiply_range<T, 0>;
  }
}

}  // namespace
}  // namespace spmm::cpu
SPMM_ISA_END
