// What a thread of the tensor-core kernels does with its sums: finds saturated elements, writes C blocks.
#pragma once

#include <cstdint>

#include "kernels/tiles/launch.hpp"
#include "spmm/saturate.hpp"

namespace spmm::kernels::tensor {

/// The C blocks of a tile, and what its sums are worth.
struct CTile {
  std::uint32_t m;
  std::uint32_t* values;     // of the first C block
  std::uint8_t* non_zero;    // likewise
  std::uint32_t row_stride;  // C blocks from one block row to the next
  std::uint32_t end_row;     // elements, from where the first C block begins
  std::uint32_t end_column;
  std::uint32_t shift;  // of two planes
  std::uint32_t limit;  // one plane: sums from here on are saturated
  bool merge;           // add to what the C blocks hold
};

/// Where the elements of C that one thread holds begin, counted from the first C block.
struct FragmentOrigin {
  std::uint32_t row;     // of the first half; the second is 8 rows below
  std::uint32_t column;  // of the first group; groups are 8 columns apart
  [[nodiscard]] __device__ bool has_row(const CTile& tile, std::uint32_t half) const {
    return row + 8 * half < tile.end_row;
  }
};

/// Where the elements of this thread begin in a tile of `Planes` planes. M: m, which divides all tiles; 0 = at run
/// time. Threads: those that multiply.
template <std::uint32_t Planes, std::uint32_t M>
__device__ FragmentOrigin origin_in(const TileTask& task) {
  const std::uint32_t lane = threadIdx.x % 32;
  const FragmentOrigin in_tile{.row = threadIdx.x / 32 * 16 / Planes + lane / 4, .column = lane % 4 * 2};
  if constexpr (M != 0) return in_tile;
  return {.row = task.first_row + in_tile.row, .column = task.first_column + in_tile.column};
}

/// Elements of C that one thread holds, for operands of `Planes` byte planes each.
/// Layout: g = lane / 4, q = lane % 4; x counts groups of 8 plane columns (hopper.cuh, wgmma_u8).
///
///   sums                    one plane                     two planes, x even   two planes, x odd
///   d[4x],     d[4x + 1]    row g,     columns 8x + 2q,   high(A) high(B)      high(A) low(B)
///   d[4x + 2], d[4x + 3]    row g + 8  8x + 2q + 1        low(A) high(B)       low(A) low(B)
///
/// With two planes, groups of 8 plane rows are high and low bytes of the same 8 element rows in turn: an element is
/// made of four sums.
template <std::uint32_t Planes>
struct Fragment {
  static constexpr std::uint32_t kGroups = kTileRowsB / 8 / Planes;  // of 8 columns
  static constexpr std::uint32_t kHalves = Planes == 2 ? 1 : 2;      // rows 8 apart

  /// Exact sum of element e, 0 or 1, of a group of 8 element columns.
  __device__ static std::uint64_t sum(const std::uint32_t (&d)[128], std::uint32_t shift, std::uint32_t group,
                                      std::uint32_t half, std::uint32_t e) {
    if constexpr (Planes == 2) {
      const std::uint32_t middle = 1u << shift;  // a multiply-add: a shift of 64 bits would be several instructions
      const std::uint32_t high = middle * middle;
      return multiply_wide(d[8 * group + e], high) + multiply_wide(d[8 * group + 2 + e], middle) +
             multiply_wide(d[8 * group + 4 + e], middle) + d[8 * group + 6 + e];
    } else {
      return d[4 * group + 2 * half + e];
    }
  }

  /// Elements of a thread that lie within the tile.
  __device__ static std::uint32_t count(const FragmentOrigin& origin, const CTile& tile) {
    std::uint32_t rows = 0;
    for (std::uint32_t half = 0; half < kHalves; ++half) rows += origin.has_row(tile, half) ? 1 : 0;
    std::uint32_t columns = 0;
    for (std::uint32_t e = 0; e < 2; ++e) {
      const std::uint32_t first = origin.column + e;
      if (first < tile.end_column) columns += min(kGroups, (tile.end_column - first + 7) / 8);
    }
    return rows * columns;
  }

 private:
  __device__ static std::uint64_t multiply_wide(std::uint32_t x, std::uint32_t y) { return std::uint64_t{x} * y; }
};

/// Whether all elements of a thread are saturated; those outside the tile are zero and do not count.
template <std::uint32_t Planes>
__device__ bool is_saturated(const std::uint32_t (&d)[128], const CTile& tile, const FragmentOrigin& origin) {
  std::uint32_t saturated = 0;
#pragma unroll
  for (std::uint32_t half = 0; half < Fragment<Planes>::kHalves; ++half)
#pragma unroll
    for (std::uint32_t group = 0; group < Fragment<Planes>::kGroups; ++group)
#pragma unroll
      for (std::uint32_t e = 0; e < 2; ++e) {
        const std::uint64_t sum = Fragment<Planes>::sum(d, tile.shift, group, half, e);
        saturated += sum >= (Planes == 1 ? tile.limit : kMaxVal) ? 1 : 0;
      }
  return saturated == Fragment<Planes>::count(origin, tile);
}

/// Whether a thread's sums of one plane would reach the limit on average, or nearly, if they went on growing as they
/// did in the first `done` of `num_stages` stages.
__device__ inline bool may_saturate(const std::uint32_t (&d)[128], const CTile& tile, const FragmentOrigin& origin,
                                    std::uint32_t done, std::uint32_t num_stages) {
  std::uint64_t sum = 0;  // 128 * 2^32 at most
#pragma unroll
  for (const std::uint32_t one : d) sum += one;
  const std::uint64_t count = Fragment<1>::count(origin, tile);
  return sum * num_stages * 5 >= count * tile.limit * done * 4;
}

/// Writes a thread's elements to their C blocks, AtOnce of them by an access: 2 if m is even, as both elements of a
/// group then lie in one C block, next to each other. M: m, 0 = at run time.
template <std::uint32_t Planes, std::uint32_t M, std::uint32_t AtOnce>
__device__ void store_elements(const std::uint32_t (&d)[128], const CTile& tile, const FragmentOrigin& origin) {
  struct alignas(4 * AtOnce) Elements {
    std::uint32_t x[AtOnce];
  };
  const std::uint32_t m = M != 0 ? M : tile.m;
#pragma unroll
  for (std::uint32_t half = 0; half < Fragment<Planes>::kHalves; ++half) {
    if (!origin.has_row(tile, half)) continue;
    const std::uint32_t row = origin.row + 8 * half;
    const std::uint64_t first_c_block = std::uint64_t{row / m} * tile.row_stride;
    std::uint32_t* const first_value = tile.values + (first_c_block * m + row % m) * m;
#pragma unroll
    for (std::uint32_t x = 0; x < 2 * Fragment<Planes>::kGroups; x += AtOnce) {
      const std::uint32_t column = origin.column + x / 2 * 8 + x % 2;
      if (column >= tile.end_column) continue;
      const std::uint32_t block = column / m;
      auto& at = *reinterpret_cast<Elements*>(first_value + std::uint64_t{block} * m * m + column % m);
      Elements values;
      std::uint32_t any = 0;
#pragma unroll
      for (std::uint32_t e = 0; e < AtOnce; ++e) {
        values.x[e] = saturate(Fragment<Planes>::sum(d, tile.shift, x / 2, half, x % 2 + e));
      }
      if (tile.merge) {
        const Elements before = at;
#pragma unroll
        for (std::uint32_t e = 0; e < AtOnce; ++e) values.x[e] = saturating_add(values.x[e], before.x[e]);
      }
      at = values;
#pragma unroll
      for (std::uint32_t e = 0; e < AtOnce; ++e) any |= values.x[e];
      if (any != 0) tile.non_zero[first_c_block + block] = 1;  // all that write store 1: no atomic is needed
    }
  }
}

/// Writes a thread's elements to their C blocks. M: m, 0 = at run time.
template <std::uint32_t Planes, std::uint32_t M>
__device__ void store(const std::uint32_t (&d)[128], const CTile& tile, const FragmentOrigin& origin) {
  if (M != 0 || tile.m % 2 == 0) {
    store_elements<Planes, M, 2>(d, tile, origin);
  } else {
    store_elements<Planes, 0, 1>(d, tile, origin);
  }
}

}  // namespace spmm::kernels::tensor
