// The multiply kernel for any machine and any m: 64-bit sums.
#include <algorithm>
#include <array>
#include <cstring>

#include "cpu/simd/kernels.hpp"
#include "spmm/saturate.hpp"
#include "spmm/types.hpp"

namespace spmm::cpu {
namespace {

using Sums = std::array<std::uint64_t, std::size_t{kMaxBlockDim} * kMaxBlockDim>;

void add_product(Sums& sums, const std::uint16_t* a, const std::uint16_t* b, std::uint32_t m) {
  for (std::uint32_t r = 0; r < m; ++r) {
    std::uint64_t* row = sums.data() + std::size_t{r} * m;
    for (std::uint32_t t = 0; t < m; ++t) {
      const std::uint16_t factor = a[r * m + t];
      for (std::uint32_t c = 0; c < m; ++c) row[c] += multiply_exact(factor, b[t * m + c]);
    }
  }
}

std::byte* multiply_c_blocks(const PackedBlocks& x, const CBlockList& list, std::byte* out) {
  const std::uint32_t m = x.shape.m;
  const std::size_t elements = std::size_t{m} * m;
  Sums sums;
  std::uint32_t p = list.begin;
  for (const CBlock& c_block : list.c_blocks) {
    std::fill_n(sums.begin(), elements, 0);
    for (; p < c_block.end; ++p) {
      add_product(sums, x.a + list.pairs[p].a * x.shape.a_elements(), x.b + list.pairs[p].b * x.shape.b_elements(), m);
    }
    std::uint64_t any = 0;
    for (std::size_t e = 0; e < elements; ++e) {
      any |= sums[e];
      const std::uint32_t value = saturate(sums[e]);
      std::memcpy(out + kIndexBytes + e * sizeof value, &value, sizeof value);
    }
    if (any == 0) continue;
    const BlockIndex at{.i = list.row, .j = c_block.col};
    std::memcpy(out, &at, kIndexBytes);
    out += output_record_bytes(m);
  }
  return out;
}

}  // namespace

MultiplyCBlocks portable_kernel() {
  return multiply_c_blocks;
}

}  // namespace spmm::cpu
