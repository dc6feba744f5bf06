// Stable sort by a few bits of a key.
#pragma once

#include <cstdint>
#include <span>

namespace spmm::cpu {

struct Keyed {
  std::uint64_t key;
  std::uint32_t value;
};

/// Sorts by the key bits [first_bit, last_bit), stable. Threads: uses num_threads for large inputs.
/// Shapes: scratch as large as items.
void radix_sort(std::span<Keyed> items, Keyed* scratch, unsigned first_bit, unsigned last_bit, unsigned num_threads);

}  // namespace spmm::cpu
