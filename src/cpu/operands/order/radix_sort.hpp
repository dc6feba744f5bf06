// Stable sort by a few bits of a key.
#pragma once

#include <cstdint>
#include <span>

#include "base/run/run.hpp"

namespace spmm::cpu {

struct SortItem {
  std::uint64_t key;
  std::uint32_t value;
};

/// Sorts by the key bits [first_bit, last_bit), stable.
/// Threads: num_threads for large inputs, of the pool of `run`; of the process's pool if no run is given.
/// Shapes: scratch as large as items. Errors: Interrupted where a run is given; the items are then in no order.
void radix_sort(std::span<SortItem> items, SortItem* scratch, unsigned first_bit, unsigned last_bit,
                unsigned num_threads, const Run* run = nullptr);

/// The same for keys that carry what belongs to them in other bits.
void radix_sort(std::span<std::uint64_t> items, std::uint64_t* scratch, unsigned first_bit, unsigned last_bit,
                unsigned num_threads, const Run* run = nullptr);

}  // namespace spmm::cpu
