// Tiles of byte products without special instructions, and the choice for this processor.
#include "verify/simd/bound_tiles.hpp"

#include <algorithm>

namespace spmm {
namespace {

void add_bytes(const std::uint8_t* a, std::size_t a_stride, const std::uint8_t* b, std::size_t b_stride,
               std::uint32_t* sums) {
  for (std::size_t first = 0; first < kBoundTileColumns; first += kBoundStrip, b += b_stride) {
    for (std::size_t r = 0; r < kBoundTileRows; ++r) {
      std::uint32_t* const to = sums + r * kBoundTileColumns + first;
      for (std::size_t k = 0; k < kBoundDepth; k += 4) {
        const std::uint8_t* const four = a + r * a_stride + k;
        const std::uint8_t* const strip = b + std::size_t{k} * kBoundStrip;
        if ((four[0] | four[1] | four[2] | four[3]) == 0) continue;
        for (std::size_t c = 0; c < kBoundStrip; ++c) {
          std::uint32_t sum = 0;
          for (std::size_t x = 0; x < 4; ++x) sum += std::uint32_t{four[x]} * strip[4 * c + x];
          to[c] += sum;
        }
      }
    }
  }
}

bool reach_limit(std::uint32_t* sums, std::uint32_t limit, std::uint32_t cut_to) {
  constexpr std::size_t kCount = kBoundTileRows * kBoundTileColumns;
  if (cut_to != 0) {
    for (std::size_t e = 0; e < kCount; ++e) sums[e] = std::min(sums[e], cut_to);
  }
  bool below = false;
  for (std::size_t e = 0; e < kCount; ++e) below |= sums[e] < limit;
  return !below;
}

}  // namespace

BoundTiles portable_bound_tiles() {
  return {.add = add_bytes, .reach = reach_limit, .products_per_s = 2e9};
}

BoundTiles choose_bound_tiles() {
  for (const BoundTiles& tiles : {amx_bound_tiles(), avx512_bound_tiles(), avx2_bound_tiles()}) {
    if (tiles.add != nullptr) return tiles;
  }
  return portable_bound_tiles();
}

}  // namespace spmm
