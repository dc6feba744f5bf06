// What a thread of the tensor-core kernel does with its sums: finds saturated elements, writes C blocks.
#pragma once

#include <cstdint>

#include "kernels/dense/launch.hpp"
#include "spmm/saturate.hpp"

namespace spmm::kernels::tensor {

constexpr std::uint32_t kRows = 128;     // plane rows of A per CTA: two warpgroups of 64
constexpr std::uint32_t kColumns = 256;  // plane rows of B per CTA

/// One launch.
struct Problem {
  DenseTarget target;
  std::uint32_t first_stage;  // K range in units of kDepth
  std::uint32_t num_stages;
  bool merge;                // add to what the results hold
  std::uint32_t shift;       // of two planes
  std::uint32_t limit;       // one plane: sums from here on are saturated
  SaturatedTiles saturated;  // what the prefilter finds; done = null: it has not run
};

/// Where the elements of C that one thread holds begin.
struct FragmentOrigin {
  std::uint32_t row;     // of the first half; the second is 8 rows below
  std::uint32_t column;  // of the first group; groups are 8 columns apart
  [[nodiscard]] __device__ bool has_row(const DenseTarget& target, std::uint32_t half) const {
    return row + 8 * half < target.num_rows;
  }
};

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
  static constexpr std::uint32_t kGroups = kColumns / 8 / Planes;  // of 8 columns
  static constexpr std::uint32_t kHalves = Planes == 2 ? 1 : 2;    // rows 8 apart

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

  /// Elements of a thread that lie within the target.
  __device__ static std::uint32_t count(const FragmentOrigin& origin, const DenseTarget& target) {
    std::uint32_t rows = 0;
    for (std::uint32_t half = 0; half < kHalves; ++half) rows += origin.has_row(target, half) ? 1 : 0;
    std::uint32_t columns = 0;
    for (std::uint32_t e = 0; e < 2; ++e) {
      const std::uint32_t first = origin.column + e;
      if (first < target.num_columns) columns += min(kGroups, (target.num_columns - first + 7) / 8);
    }
    return rows * columns;
  }

 private:
  __device__ static std::uint64_t multiply_wide(std::uint32_t x, std::uint32_t y) { return std::uint64_t{x} * y; }
};

/// Whether all elements of a thread are saturated; those outside the target are zero and do not count.
template <std::uint32_t Planes>
__device__ bool is_saturated(const std::uint32_t (&d)[128], const Problem& problem, const FragmentOrigin& origin) {
  std::uint32_t saturated = 0;
#pragma unroll
  for (std::uint32_t half = 0; half < Fragment<Planes>::kHalves; ++half)
#pragma unroll
    for (std::uint32_t group = 0; group < Fragment<Planes>::kGroups; ++group)
#pragma unroll
      for (std::uint32_t e = 0; e < 2; ++e) {
        const std::uint64_t sum = Fragment<Planes>::sum(d, problem.shift, group, half, e);
        saturated += sum >= (Planes == 1 ? problem.limit : kMaxVal) ? 1 : 0;
      }
  return saturated == Fragment<Planes>::count(origin, problem.target);
}

/// Whether a thread's sums of one plane would reach the limit on average, or nearly, if they went on growing as they
/// did in the first `done` stages.
__device__ inline bool may_saturate(const std::uint32_t (&d)[128], const Problem& problem, const FragmentOrigin& origin,
                                    std::uint32_t done) {
  std::uint64_t sum = 0;  // 128 * 2^32 at most
#pragma unroll
  for (const std::uint32_t one : d) sum += one;
  const std::uint64_t count = Fragment<1>::count(origin, problem.target);
  return sum * problem.num_stages * 5 >= count * problem.limit * done * 4;
}

/// Writes a thread's elements to their C blocks. Prefilter: all of them are saturated.
template <std::uint32_t Planes, bool Prefilter>
__device__ void store(const std::uint32_t (&d)[128], const Problem& problem, const FragmentOrigin& origin) {
  const DenseTarget& target = problem.target;
  const std::uint32_t m = target.m;
#pragma unroll
  for (std::uint32_t half = 0; half < Fragment<Planes>::kHalves; ++half) {
    if (!origin.has_row(target, half)) continue;
    const std::uint32_t row = origin.row + 8 * half;
    const std::uint64_t first_c_block = std::uint64_t{row / m} * target.num_block_columns + target.first_block_column;
#pragma unroll
    for (std::uint32_t group = 0; group < Fragment<Planes>::kGroups; ++group) {
#pragma unroll
      for (std::uint32_t e = 0; e < 2; ++e) {
        const std::uint32_t column = origin.column + 8 * group + e;
        if (column >= target.num_columns) continue;
        const std::uint64_t c_block = first_c_block + column / m;
        std::uint32_t& element = target.results.values[c_block * m * m + row % m * m + column % m];
        std::uint32_t value = kMaxVal;
        if constexpr (!Prefilter) {
          value = saturate(Fragment<Planes>::sum(d, problem.shift, group, half, e));
          if (problem.merge) value = saturating_add(value, element);
        }
        element = value;
        if (value != 0 && target.results.non_zero != nullptr) {
          target.results.non_zero[c_block] = 1;  // all threads that write store 1: no atomic is needed
        }
      }
    }
  }
}

/// The same if m is even: both elements of a group lie in one C block, next to each other. M: m, 0 = at run time.
template <std::uint32_t Planes, std::uint32_t M, bool Prefilter = false>
__device__ void store_even(const std::uint32_t (&d)[128], const Problem& problem, const FragmentOrigin& origin) {
  const DenseTarget& target = problem.target;
  const std::uint32_t m = M != 0 ? M : target.m;
#pragma unroll
  for (std::uint32_t half = 0; half < Fragment<Planes>::kHalves; ++half) {
    if (!origin.has_row(target, half)) continue;
    const std::uint32_t row = origin.row + 8 * half;
    const std::uint64_t first_c_block = std::uint64_t{row / m} * target.num_block_columns + target.first_block_column;
    std::uint32_t* const first_value = target.results.values + (first_c_block * m + row % m) * m;
#pragma unroll
    for (std::uint32_t group = 0; group < Fragment<Planes>::kGroups; ++group) {
      const std::uint32_t column = origin.column + 8 * group;
      if (column >= target.num_columns) continue;
      const std::uint32_t block = column / m;
      auto* const elements = reinterpret_cast<uint2*>(first_value + std::uint64_t{block} * m * m + column % m);
      uint2 value{kMaxVal, kMaxVal};
      if constexpr (!Prefilter) {
        value = {saturate(Fragment<Planes>::sum(d, problem.shift, group, half, 0)),
                 saturate(Fragment<Planes>::sum(d, problem.shift, group, half, 1))};
        if (problem.merge) {
          const uint2 before = *elements;
          value = {saturating_add(value.x, before.x), saturating_add(value.y, before.y)};
        }
      }
      *elements = value;
      // All threads that write store 1: no atomic is needed.
      if ((value.x | value.y) != 0) target.results.non_zero[first_c_block + block] = 1;
    }
  }
}

inline constexpr std::uint32_t kAnySide = 1;

/// Writes a thread's elements as the target allows. M: m, 0 = even, kAnySide = odd, or flags are not wanted.
template <std::uint32_t Planes, bool Prefilter, std::uint32_t M>
__device__ void store_elements(const std::uint32_t (&d)[128], const Problem& problem, const FragmentOrigin& origin) {
  if constexpr (M == kAnySide) {
    store<Planes, Prefilter>(d, problem, origin);
  } else {
    store_even<Planes, M, Prefilter>(d, problem, origin);
  }
}

template <std::uint32_t Side>
struct StoredSide {
  static constexpr std::uint32_t kSide = Side;
};

/// Calls body(StoredSide<M>()) with the M of store_elements that suits a target.
template <class Body>
void for_stored_side(const DenseTarget& target, const Body& body) {
  if (target.m % 2 != 0 || target.results.non_zero == nullptr) {
    body(StoredSide<kAnySide>());
  } else if (target.m == 8) {
    body(StoredSide<8>());
  } else if (target.m == 4) {
    body(StoredSide<4>());
  } else {
    body(StoredSide<0>());
  }
}

}  // namespace spmm::kernels::tensor
