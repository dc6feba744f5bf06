// Sorts a few dozen to a few million keys by one thread: all digits are counted in one pass, equal ones are skipped.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <type_traits>
#include <utility>

namespace spmm::cpu {

/// Memory: 88 KB of counters. Threads: one.
class DigitSorter {
 public:
  /// Sorts by bits [first_bit, last_bit), stable. Values: the bits below first_bit ascend from item to item, or their
  /// order does not matter. Shapes: scratch as large as items. Returns where the result lies: items or scratch.
  std::uint64_t* sort(std::span<std::uint64_t> items, std::uint64_t* scratch, unsigned first_bit, unsigned last_bit) {
    constexpr std::uint64_t kMaxCompared = 24;
    std::uint64_t* from = items.data();
    const std::uint64_t count = items.size();
    if (count <= kMaxCompared || first_bit == last_bit) {
      std::sort(from, from + count);
      return from;
    }
    const unsigned bits = last_bit - first_bit;
    const unsigned most = std::clamp(static_cast<unsigned>(std::bit_width(count)), kMinDigitBits, kMaxDigitBits);
    const unsigned passes = (bits + most - 1) / most;
    const unsigned width = (bits + passes - 1) / passes;
    const std::uint64_t mask = (std::uint64_t{1} << width) - 1;
    if (!count_digits(from, count, first_bit, passes, width)) return from;
    std::uint64_t* to = scratch;
    for (unsigned pass = 0; pass < passes; ++pass) {
      const unsigned shift = first_bit + pass * width;
      std::uint32_t* const next = counts_.get() + (pass << width);
      if (next[from[0] >> shift & mask] == count) continue;  // all alike in this digit
      std::exclusive_scan(next, next + mask + 1, next, 0u);
      for (std::uint64_t x = 0; x < count; ++x) {
        const std::uint64_t item = from[x];
        to[next[item >> shift & mask]++] = item;
      }
      std::swap(from, to);
    }
    return from;
  }

 private:
  static constexpr unsigned kMinDigitBits = 6;
  static constexpr unsigned kMaxDigitBits = 11;

  /// Fills counts_ with the occurrences of each digit; false: nothing is left to do.
  bool count_digits(const std::uint64_t* from, std::uint64_t count, unsigned first_bit, unsigned passes,
                    unsigned width) {
    std::uint32_t* const counts = counts_.get();
    const std::uint64_t mask = (std::uint64_t{1} << width) - 1;
    std::fill_n(counts, passes << width, 0u);
    const auto add = [&]<unsigned kPasses>(std::integral_constant<unsigned, kPasses>, unsigned first_pass) {
      std::uint32_t* const of_first = counts + (first_pass << width);
      for (std::uint64_t x = 0; x < count; ++x) {
        std::uint64_t key = from[x] >> (first_bit + first_pass * width);
        for (unsigned pass = 0; pass < kPasses; ++pass, key >>= width) ++of_first[(pass << width) + (key & mask)];
      }
    };
    if (std::is_sorted(from, from + count)) return false;
    unsigned pass = 0;
    for (; pass + 3 <= passes; pass += 3) add(std::integral_constant<unsigned, 3>{}, pass);
    for (; pass < passes; ++pass) add(std::integral_constant<unsigned, 1>{}, pass);
    return true;
  }

  static constexpr std::size_t kMaxCounts = std::size_t{64 / kMinDigitBits + 1} << kMaxDigitBits;
  // Not cleared: most sorts need a few of them, and pages without a write cost nothing.
  std::unique_ptr<std::uint32_t[]> counts_ = std::make_unique_for_overwrite<std::uint32_t[]>(kMaxCounts);
};

}  // namespace spmm::cpu
