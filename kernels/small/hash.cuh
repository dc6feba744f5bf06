// A row of C in a hash table of one warp: columns and sums inserted, compacted, sorted by column.
#pragma once

#include <cstdint>

#include "kernels/small/segments.cuh"
#include "kernels/tuning.hpp"

namespace spmm::kernels {

inline constexpr std::uint32_t kLeastProbeStep = 29;  // a prime, as all steps are
static_assert(small_shape(1, 1, kSmallWideCta).hash_slots < 32 * kLeastProbeStep);

/// Hash table of one row, in shared memory. Once it is sorted, columns[0, count) ascend and the C blocks are found by
/// payload[x]: m = 1: the element itself; else: the slot of the sums.
template <std::uint32_t M>
struct SmallTable {
  std::uint32_t* columns;  // [slots], kNoRow = free
  std::uint32_t* payload;  // [slots]; m = 1: the sums
  SmallSums<M> sums;
  std::uint32_t slots;  // a multiple of 32

  /// Layout: memory of small_table_words(slots, M) words.
  __device__ SmallTable(std::uint32_t* memory, std::uint32_t num_slots)
      : columns(memory),
        payload(memory + num_slots),
        sums{.sums = memory + num_slots * (M == 1 ? 1 : 2), .saturated = memory + num_slots * (M == 1 ? 2 : 2 + M * M)},
        slots(num_slots) {}

  /// Threads: one whole warp; complete after __syncwarp.
  __device__ void clear() const {
    const std::uint32_t lane = threadIdx.x % 32;
#pragma unroll 2
    for (std::uint32_t x = lane; x < slots / 4; x += 32) {
      reinterpret_cast<uint4*>(columns)[x] = uint4{kNoRow, kNoRow, kNoRow, kNoRow};
    }
#pragma unroll 2
    for (std::uint32_t x = lane; x < slots / 4 * M * M; x += 32) {
      reinterpret_cast<uint4*>(sums.sums)[x] = uint4{0, 0, 0, 0};
    }
#pragma unroll 1
    for (std::uint32_t x = lane; x < slots / 32 * M * M; x += 32) sums.saturated[x] = 0;
  }

  /// Slot of a column, taken if it has none: double hashing, as the table may get full.
  /// Values: fewer than `slots` other columns are in the table; slots < 32 * kLeastProbeStep.
  [[nodiscard]] __device__ std::uint32_t slot_of(std::uint32_t column) const {
    const std::uint32_t hash = column * 2654435769u;  // Fibonacci hashing
    std::uint32_t slot = __umulhi(hash, slots);
#pragma unroll 1
    while (true) {
      std::uint32_t there = *static_cast<volatile std::uint32_t*>(columns + slot);
      if (there == column) return slot;
      if (there == kNoRow) {
        there = atomicCAS(columns + slot, kNoRow, column);  // lanes race for a free slot
        if (there == kNoRow || there == column) return slot;
      }
      slot += kLeastProbeStep + 2 * (0xFC976410u >> (hash >> 5 & 28) & 15);  // primes to 59: every slot has its turn
      while (slot >= slots) slot -= slots;
    }
  }

  /// Moves what is in the table to the front; returns how many there are.
  /// Threads: one whole warp; complete after __syncwarp.
  template <bool Fits>
  [[nodiscard]] __device__ std::uint32_t compact() const {
    const std::uint32_t lane = threadIdx.x % 32;
    std::uint32_t count = 0;
#pragma unroll 1
    for (std::uint32_t first = 0; first < slots; first += 32) {
      const std::uint32_t slot = first + lane;
      const std::uint32_t column = columns[slot];
      std::uint32_t value = slot;
      if constexpr (M == 1) value = sums.template value<Fits>(slot, 0);
      const std::uint32_t taken = __ballot_sync(~0u, column != kNoRow);
      __syncwarp();  // all lanes have read their slots, some of which are overwritten now
      if (column != kNoRow) {
        const std::uint32_t to = count + __popc(taken & ((1u << lane) - 1));  // never behind the slot
        columns[to] = column;
        payload[to] = value;
      }
      count += __popc(taken);
      __syncwarp();  // the next slots may just have been overwritten: they are read after that
    }
    return count;
  }
};

/// Exchanges two entries that are in the wrong order.
__device__ inline void order_two(std::uint32_t& low_key, std::uint32_t& low, std::uint32_t& high_key,
                                 std::uint32_t& high, bool ascending) {
  if ((low_key > high_key) != ascending) return;
  const std::uint32_t key = low_key;
  low_key = high_key;
  high_key = key;
  const std::uint32_t other = low;
  low = high;
  high = other;
}

/// Sorts count <= 32 * PerLane entries by key: bitonic, in registers; entry x is number x % PerLane of lane x /
/// PerLane. Steps across lanes share their code, as do those within a lane. Values: keys are different, none is kNoRow.
/// Threads: one whole warp; complete after __syncwarp.
template <std::uint32_t PerLane>
__device__ __noinline__ void sort_in_registers(std::uint32_t* keys, std::uint32_t* payload, std::uint32_t count) {
  const std::uint32_t lane = threadIdx.x % 32;
  std::uint32_t k[PerLane];
  std::uint32_t v[PerLane];
#pragma unroll
  for (std::uint32_t e = 0; e < PerLane; ++e) {
    const std::uint32_t x = lane * PerLane + e;
    k[e] = x < count ? keys[x] : kNoRow;
    v[e] = x < count ? payload[x] : 0;
  }
#pragma unroll 1
  for (std::uint32_t size = 2; size <= 32 * PerLane; size *= 2) {
#pragma unroll 1
    for (std::uint32_t step = size / 2; step >= PerLane; step /= 2) {
      const std::uint32_t across = step / PerLane;
      const bool ascending = (lane * PerLane & size) == 0;
      const bool keeps_low = ((lane & across) == 0) == ascending;
#pragma unroll
      for (std::uint32_t e = 0; e < PerLane; ++e) {
        const std::uint32_t other_key = __shfl_xor_sync(~0u, k[e], across);
        const std::uint32_t other = __shfl_xor_sync(~0u, v[e], across);
        const bool takes = keeps_low ? other_key < k[e] : other_key > k[e];
        k[e] = takes ? other_key : k[e];
        v[e] = takes ? other : v[e];
      }
    }
#pragma unroll
    for (std::uint32_t step = PerLane / 2; step > 0; step /= 2) {
      if (step >= size) continue;
#pragma unroll
      for (std::uint32_t e = 0; e < PerLane; ++e) {
        if ((e & step) != 0) continue;
        const bool ascending = ((lane * PerLane + e) & size) == 0;
        order_two(k[e], v[e], k[e | step], v[e | step], ascending);
      }
    }
  }
  __syncwarp();  // all entries are in registers
#pragma unroll
  for (std::uint32_t e = 0; e < PerLane; ++e) {
    const std::uint32_t x = lane * PerLane + e;
    if (x >= count) continue;
    keys[x] = k[e];
    payload[x] = v[e];
  }
}

/// Any number of entries: bitonic, in shared memory, as if filled up to a power of two with the largest key: each merge
/// begins with a mirrored step, so that all steps put the smaller key first.
/// Threads: one whole warp; complete when it returns.
__device__ __noinline__ static void sort_in_shared(std::uint32_t* keys, std::uint32_t* payload, std::uint32_t count) {
  const std::uint32_t lane = threadIdx.x % 32;
  std::uint32_t padded = 32;
  while (padded < count) padded *= 2;
  const auto order = [&](std::uint32_t x, std::uint32_t y) {
    if (y < count && keys[x] > keys[y]) {
      const std::uint32_t key = keys[x];
      keys[x] = keys[y];
      keys[y] = key;
      const std::uint32_t value = payload[x];
      payload[x] = payload[y];
      payload[y] = value;
    }
  };
#pragma unroll 1
  for (std::uint32_t size = 2; size <= padded; size *= 2) {
#pragma unroll 1
    for (std::uint32_t t = lane; t < padded / 2; t += 32) {
      const std::uint32_t x = t / (size / 2) * size + t % (size / 2);
      order(x, t / (size / 2) * size + size - 1 - t % (size / 2));
    }
    __syncwarp();  // a step is complete
#pragma unroll 1
    for (std::uint32_t step = size / 4; step > 0; step /= 2) {
#pragma unroll 1
      for (std::uint32_t t = lane; t < padded / 2; t += 32) {
        const std::uint32_t x = t / step * 2 * step + t % step;
        order(x, x + step);
      }
      __syncwarp();  // a step is complete
    }
  }
}

/// Sorts entries by key. Threads: one whole warp; complete when it returns.
__device__ inline void sort_entries(std::uint32_t* keys, std::uint32_t* payload, std::uint32_t count) {
  if (count <= 32) {
    sort_in_registers<1>(keys, payload, count);
  } else if (count <= 64) {
    sort_in_registers<2>(keys, payload, count);
  } else if (count <= 128) {
    sort_in_registers<4>(keys, payload, count);
  } else if (count <= 256) {
    sort_in_registers<8>(keys, payload, count);
  } else if (count <= 512) {
    sort_in_registers<16>(keys, payload, count);
  } else {
    sort_in_shared(keys, payload, count);
  }
  __syncwarp();  // entries are in order
}

}  // namespace spmm::kernels
