// Sums modulo 2^61 - 1 without special instructions, and the choice for this processor.
#include "verify/sums/block_sums.hpp"

#include <array>
#include <cstring>

#include "spmm/saturate.hpp"
#include "spmm/types.hpp"
#include "verify/sums/field61.hpp"

namespace spmm {
namespace {

template <class T>
void sum_blocks(const BlockTerm* terms, std::uint32_t count, std::uint32_t m, std::uint64_t* sums) {
  constexpr std::uint64_t kLow = (std::uint64_t{1} << 21) - 1;
  struct Limbs {
    std::uint64_t low = 0, middle = 0, high = 0;
  };
  std::array<Limbs, kMaxBlockDim> all{};
  for (std::uint32_t t = 0; t < count; ++t) {
    const std::byte* values = terms[t].values;
    for (std::uint32_t r = 0; r < m; ++r) {
      Limbs row;
      for (std::uint32_t c = 0; c < m; ++c, values += sizeof(T)) {
        T value = 0;
        std::memcpy(&value, values, sizeof value);
        const std::uint64_t x = terms[t].vector[c];
        row.low += value * (x & kLow);
        row.middle += value * (x >> 21 & kLow);
        row.high += value * (x >> 42);
      }
      all[r].low += row.low;
      all[r].middle += row.middle;
      all[r].high += row.high;
    }
  }
  using Wide = unsigned __int128;
  for (std::uint32_t r = 0; r < m; ++r) {
    sums[r] = reduce61(Wide{all[r].low} + (Wide{all[r].middle} << 21) + (Wide{all[r].high} << 42));
  }
}

void sum_rows(const std::byte* values, std::uint32_t m, std::uint64_t* sums) {
  for (std::uint32_t r = 0; r < m; ++r) {
    std::uint64_t sum = 0;
    for (std::uint32_t c = 0; c < m; ++c, values += sizeof(std::uint16_t)) {
      std::uint16_t value = 0;
      std::memcpy(&value, values, sizeof value);
      sum += value;
    }
    sums[r] = sum;
  }
}

bool is_saturated(const std::byte* values, std::uint64_t count) {
  bool found = false;
  for (std::uint64_t e = 0; e < count; ++e) {
    std::uint32_t value = 0;
    std::memcpy(&value, values + e * sizeof value, sizeof value);
    found |= value == kMaxVal;
  }
  return found;
}

/// FixedM = m where it is not 0.
template <std::uint32_t FixedM>
inline void add_product_of(const std::uint16_t* a, const std::uint16_t* b, std::uint32_t m_given, std::uint64_t* sums) {
  const std::uint32_t m = FixedM != 0 ? FixedM : m_given;
  for (std::uint32_t r = 0; r < m; ++r) {
    for (std::uint32_t t = 0; t < m; ++t) {
      const std::uint32_t factor = a[r * m + t];
      const std::uint16_t* const row = b + t * m;
      for (std::uint32_t c = 0; c < m; ++c) sums[r * m + c] += factor * row[c];
    }
  }
}

void add_product(const std::uint16_t* a, const std::uint16_t* b, std::uint32_t m, std::uint64_t* sums) {
  if (m == 8) return add_product_of<8>(a, b, m, sums);
  if (m == 4) return add_product_of<4>(a, b, m, sums);
  add_product_of<0>(a, b, m, sums);
}

}  // namespace

BlockSums portable_block_sums() {
  return {.u16 = sum_blocks<std::uint16_t>,
          .u32 = sum_blocks<std::uint32_t>,
          .rows_u16 = sum_rows,
          .is_saturated = is_saturated,
          .add_product = add_product};
}

BlockSums choose_block_sums() {
  for (const BlockSums& sums : {avx512_block_sums(), avx2_block_sums()}) {
    if (sums.u32 != nullptr) return sums;
  }
  return portable_block_sums();
}

}  // namespace spmm
