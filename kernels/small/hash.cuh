// A row of C in a hash table of one warp: columns and sums inserted, compacted, sorted by column.
#pragma once

#include <cstdint>

#include "kernels/small/segments.cuh"
#include "kernels/tuning.hpp"

namespace spmm::kernels {

inline constexpr std::uint32_t kLeastProbeStep = 29;  // a prime, as all steps are
static_assert(small_shape(1, 1, kSmallWideBytes).hash_slots < 32 * kLeastProbeStep);

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

/// Sorts entries by key: bitonic, as if filled up to a power of two with the largest key: each merge begins with a
/// mirrored step, so that all steps put the smaller key first.
/// Threads: one whole warp; complete when it returns.
__device__ __noinline__ static void sort_entries(std::uint32_t* keys, std::uint32_t* payload, std::uint32_t count) {
  const std::uint32_t lane = threadIdx.x % 32;
  std::uint32_t padded = 32;
  while (padded < count) padded *= 2;
  const auto order = [&](std::uint32_t x, std::uint32_t y) {
    if (y >= count || keys[x] <= keys[y]) return;
    const std::uint32_t key = keys[x];
    keys[x] = keys[y];
    keys[y] = key;
    const std::uint32_t value = payload[x];
    payload[x] = payload[y];
    payload[y] = value;
  };
#pragma unroll 1
  for (std::uint32_t size = 2; size <= padded; size *= 2) {
#pragma unroll 1
    for (std::uint32_t step = size / 2; step > 0; step /= 2) {
#pragma unroll 1
      for (std::uint32_t t = lane; t < padded / 2; t += 32) {
        const std::uint32_t within = t & (step - 1);
        const std::uint32_t first = (t - within) * 2;
        order(first + within, step == size / 2 ? first + size - 1 - within : first + within + step);
      }
      __syncwarp();  // a step is complete
    }
  }
}

}  // namespace spmm::kernels
