// The kernels for blocks of side 1 to 3, in vectors of 8 lanes that the compiler maps to what the machine has: include
// portable.hpp, avx2.hpp or avx512.hpp before. Everything here is internal to the file that includes it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cpu/simd/layout.hpp"
#include "cpu/simd/tile_kernel.hpp"
#include "spmm/types.hpp"

SPMM_ISA_BEGIN
namespace spmm::cpu {
namespace {

static_assert(sizeof(Lanes) == kTileLanes * sizeof(std::uint32_t));

constexpr std::uint32_t kSegmentsAhead = 4;  // that are fetched: rows of B lie anywhere

/// Clamped partial sums may be added in any order: no term is negative. So 32 bits are exact with a test for carry.
template <std::uint32_t kSide, bool kSaturates, bool kLists>
std::uint32_t add_segments(const TileSegment* segments, std::uint32_t count, const TileSums& sums,
                           std::uint32_t num_touched) {
  std::uint32_t* const touched = sums.touched;
  std::uint8_t* const fresh = sums.fresh;
  auto* const values = reinterpret_cast<Lanes*>(sums.values);
  const std::uint32_t base = sums.base;
  for (std::uint32_t s = 0; s < count; ++s) {
    const TileSegment& segment = segments[s];
    Lanes factors[kSide * kSide];
    for (std::uint32_t e = 0; e < kSide * kSide; ++e) factors[e] = Lanes{} + segment.a[e];
    const auto* b = reinterpret_cast<const Halves*>(segment.b);
    const std::uint32_t* const slots = segment.slots;
    const std::uint32_t num_tiles = segment.count;
    if (s + kSegmentsAhead < count) {
      __builtin_prefetch(segments[s + kSegmentsAhead].slots);
      __builtin_prefetch(segments[s + kSegmentsAhead].b);
    }
    for (std::uint32_t y = 0; y < num_tiles; ++y, b += kSide) {
      const std::uint32_t slot = slots[y] - base;
      if constexpr (kLists) {
        touched[num_touched] = slot;  // overwritten unless it is fresh
        num_touched += fresh[slot];
      }
      fresh[slot] = 0;
      Lanes* const tile = values + std::size_t{slot} * kSide;
      Lanes rows[kSide];
      for (std::uint32_t t = 0; t < kSide; ++t) Vectors::widen(b[t], rows[t]);
      for (std::uint32_t r = 0; r < kSide; ++r) {
        Lanes sum = tile[r];
        for (std::uint32_t t = 0; t < kSide; ++t) {
          const Lanes product = factors[r * kSide + t] * rows[t];
          sum += product;
          if constexpr (kSaturates) sum |= reinterpret_cast<Lanes>(sum < product);
        }
        tile[r] = sum;
      }
    }
  }
  return num_touched;
}

inline std::uint32_t list_touched(const TileSums& sums, std::uint32_t begin, std::uint32_t end) {
  std::uint32_t count = 0;
  for (std::uint32_t first = begin; first < end; first += kScannedSlots) {
    std::uint64_t slots = Vectors::zero_bytes(sums.fresh + first);
    if (end - first < kScannedSlots) slots &= (std::uint64_t{1} << (end - first)) - 1;
    for (; slots != 0; slots &= slots - 1) {
      sums.touched[count++] = sums.base + first + static_cast<std::uint32_t>(std::countr_zero(slots));
    }
  }
  return count;
}

/// A bit for the first lane of each block of a tile that has a non-zero element. Shapes: tile [kSide, 8].
template <std::uint32_t kSide>
inline std::uint32_t occupied_blocks(const std::uint32_t* tile) {
  const auto* rows = reinterpret_cast<const Lanes*>(tile);
  Lanes any = rows[0];
  for (std::uint32_t r = 1; r < kSide; ++r) any |= rows[r];
  const std::uint32_t lanes = Vectors::nonzero_lanes(reinterpret_cast<const std::uint32_t*>(&any));
  if constexpr (kSide == 1) return lanes;
  if constexpr (kSide == 2) return (lanes | lanes >> 1) & 0x55;
  return (lanes | lanes >> 1 | lanes >> 2) & 0x11;
}

/// Shapes: tile [kSide, 8]. Returns the end of the records.
template <std::uint32_t kSide>
inline std::byte* write_blocks(const std::uint32_t* tile, BlockIndex first, std::byte* out) {
  constexpr std::uint32_t kStride = kTileLanes / tile_blocks(kSide);
  for (std::uint32_t blocks = occupied_blocks<kSide>(tile); blocks != 0; blocks &= blocks - 1) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(blocks));
    const BlockIndex at{.i = first.i, .j = first.j + lane / kStride};
    std::memcpy(out, &at, kIndexBytes);
    for (std::uint32_t r = 0; r < kSide; ++r) {
      std::memcpy(out + kIndexBytes + std::size_t{r} * kSide * sizeof *tile, tile + std::size_t{r} * kTileLanes + lane,
                  kSide * sizeof *tile);
    }
    out += output_record_bytes(kSide);
  }
  return out;
}

template <std::uint32_t kSide>
std::byte* write_tiles(const TileRow& row, const TileSums& sums, std::byte* out) {
  for (std::uint32_t x = 0; x < row.count; ++x) {
    const std::uint32_t slot = slot_of(row, x, sums);
    std::uint32_t* const values = sums.values + std::size_t{slot} * kSide * kTileLanes;
    const BlockIndex first{.i = row.row, .j = row.tiles[x] * tile_blocks(kSide)};
    out = write_blocks<kSide>(values, first, out);
    sums.fresh[slot] = 1;
    std::memset(values, 0, kSide * sizeof(Lanes));
  }
  return out;
}

template <std::uint32_t kSide>
TileKernel tile_kernel_of() {
  return {.add = {{add_segments<kSide, false, false>, add_segments<kSide, false, true>},
                  {add_segments<kSide, true, false>, add_segments<kSide, true, true>}},
          .list = list_touched,
          .write = write_tiles<kSide>,
          .shape = wide_tile(kSide)};
}

inline TileKernel tile_kernel_for(std::uint32_t m) {
  return m == 1 ? tile_kernel_of<1>() : m == 2 ? tile_kernel_of<2>() : tile_kernel_of<3>();
}

}  // namespace
}  // namespace spmm::cpu
SPMM_ISA_END
