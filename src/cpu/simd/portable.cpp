// The kernels for any machine: sums of 32 bits in plain loops, which the compiler turns into vectors.
#include "cpu/simd/portable.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "cpu/simd/kernels.hpp"
#include "cpu/simd/tile_kernels.hpp"
#include "spmm/saturate.hpp"
#include "spmm/types.hpp"

namespace spmm::cpu {
namespace {

/// Sums of one C block. Values: kM = m, or the largest one if m is not known when compiling.
template <std::uint32_t kM>
using Sums = std::array<std::uint32_t, std::size_t{kM} * kM>;

std::uint32_t add_clamped(std::uint32_t x, std::uint32_t y) {
  const std::uint32_t sum = x + y;
  return sum < y ? kMaxVal : sum;
}

/// Adds one product of blocks. Shapes: a, b [m, m]. Values: kM = m where it is known when compiling, else 0. kWide:
/// each term is clamped; else no sum may leave 32 bits.
template <std::uint32_t kM, bool kWide>
void add_product(std::uint32_t* sums, const std::uint16_t* a, const std::uint16_t* b, std::size_t side) {
  const std::size_t m = kM != 0 ? kM : side;
  for (std::size_t r = 0; r < m; ++r, sums += m, a += m) {
    for (std::size_t t = 0; t < m; ++t) {
      const std::uint32_t factor = a[t];
      const std::uint16_t* const of_b = b + t * m;
#pragma GCC unroll 1  // unrolled, it would not become vectors
      for (std::size_t c = 0; c < m; ++c) {
        const std::uint32_t term = factor * of_b[c];
        sums[c] = kWide ? add_clamped(sums[c], term) : sums[c] + term;
      }
    }
  }
}

/// Narrow: sums of flush_pairs pairs at most fit 32 bits, and are then added to clamped ones.
template <std::uint32_t kM, bool kWide>
std::byte* multiply_c_blocks(const PackedBlocks& x, const CBlockList& list, std::byte* out) {
  const std::uint32_t m = kM != 0 ? kM : x.shape.m;
  const std::size_t elements = std::size_t{m} * m;
  Sums<kM != 0 ? kM : kMaxBlockDim> sums;
  Sums<kM != 0 ? kM : kMaxBlockDim> of_run;
  std::uint32_t p = list.begin;
  for (const CBlock& c_block : list.c_blocks) {
    std::fill_n(sums.begin(), elements, 0);
    while (p < c_block.end) {
      const std::uint32_t end = kWide ? c_block.end : p + std::min(c_block.end - p, x.arithmetic.flush_pairs);
      if (!kWide) std::fill_n(of_run.begin(), elements, 0);
      for (; p < end; ++p) {
        const PairRef& pair = list.pairs[p];
        add_product<kM, kWide>(kWide ? sums.data() : of_run.data(), x.a + pair.a * elements, x.b + pair.b * elements,
                               m);
      }
      if (kWide) continue;
      for (std::size_t e = 0; e < elements; ++e) sums[e] = add_clamped(sums[e], of_run[e]);
    }
    std::uint32_t any = 0;
    for (std::size_t e = 0; e < elements; ++e) any |= sums[e];
    if (any == 0) continue;
    const BlockIndex at{.i = list.row, .j = c_block.col};
    std::memcpy(out, &at, kIndexBytes);
    std::memcpy(out + kIndexBytes, sums.data(), elements * sizeof sums[0]);
    out += output_record_bytes(m);
  }
  return out;
}

}  // namespace

MultiplyCBlocks portable_kernel(const PackedShape& shape, const Arithmetic& arithmetic) {
  switch (shape.m) {
    case 4:
      return arithmetic.wide ? multiply_c_blocks<4, true> : multiply_c_blocks<4, false>;
    case 8:
      return arithmetic.wide ? multiply_c_blocks<8, true> : multiply_c_blocks<8, false>;
    case 16:
      return arithmetic.wide ? multiply_c_blocks<16, true> : multiply_c_blocks<16, false>;
    default:
      return arithmetic.wide ? multiply_c_blocks<0, true> : multiply_c_blocks<0, false>;
  }
}

TileKernel portable_tile_kernel(std::uint32_t m) {
  return tile_kernel_for(m);
}

}  // namespace spmm::cpu
