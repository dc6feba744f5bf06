// Sorts a few dozen to a few million keys by one thread: all digits are counted in one pass, equal ones are skipped.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>

namespace spmm::cpu {

/// Memory: 88 KB of counters. Threads: one.
class DigitSorter {
 public:
  /// Sorts by bits [first_bit, last_bit), stable. Values: Item = an unsigned integer; the bits below first_bit ascend
  /// from item to item, or their order does not matter. Shapes: items, scratch [count]. Returns where the result lies:
  /// items or scratch.
  template <class Item>
  Item* sort(Item* items, std::uint64_t count, Item* scratch, unsigned first_bit, unsigned last_bit) {
    constexpr std::uint64_t kMaxCompared = 24;
    Item* from = items;
    if (count <= kMaxCompared || first_bit == last_bit) {
      std::sort(from, from + count);
      return from;
    }
    if (std::is_sorted(from, from + count)) return from;
    const unsigned bits = last_bit - first_bit;
    const unsigned most = std::clamp(static_cast<unsigned>(std::bit_width(count)), kMinDigitBits, kMaxDigitBits);
    const unsigned passes = (bits + most - 1) / most;
    const unsigned width = (bits + passes - 1) / passes;
    const std::uint64_t mask = (std::uint64_t{1} << width) - 1;
    count_digits(from, count, first_bit, passes, width);
    Item* to = scratch;
    for (unsigned pass = 0; pass < passes; ++pass) {
      const unsigned shift = first_bit + pass * width;
      const auto digit = [&](Item item) { return static_cast<std::uint64_t>(item >> shift) & mask; };
      std::uint32_t* const next = counts_.get() + (pass << width);
      if (next[digit(from[0])] == count) continue;  // all alike in this digit
      std::exclusive_scan(next, next + mask + 1, next, 0u);
      for (std::uint64_t x = 0; x < count; ++x) {
        const Item item = from[x];
        to[next[digit(item)]++] = item;
      }
      std::swap(from, to);
    }
    return from;
  }

 private:
  static constexpr unsigned kMinDigitBits = 6;
  static constexpr unsigned kMaxDigitBits = 11;

  /// Fills counts_ with the occurrences of each digit: of three digits in each pass over the items.
  template <class Item>
  void count_digits(const Item* from, std::uint64_t count, unsigned first_bit, unsigned passes, unsigned width) {
    const std::uint64_t mask = (std::uint64_t{1} << width) - 1;
    std::fill_n(counts_.get(), passes << width, 0u);
    for (unsigned pass = 0; pass < passes; pass += 3) {
      std::uint32_t* const counts = counts_.get() + (pass << width);
      const unsigned shift = first_bit + pass * width;
      if (pass + 3 <= passes) {
        for (std::uint64_t x = 0; x < count; ++x) {
          const Item key = from[x] >> shift;
          ++counts[static_cast<std::uint64_t>(key) & mask];
          ++counts[(std::uint64_t{1} << width) + (static_cast<std::uint64_t>(key >> width) & mask)];
          ++counts[(std::uint64_t{2} << width) + (static_cast<std::uint64_t>(key >> 2 * width) & mask)];
        }
        continue;
      }
      for (unsigned one = 0; pass + one < passes; ++one) {
        std::uint32_t* const of_digit = counts + (one << width);
        for (std::uint64_t x = 0; x < count; ++x) {
          ++of_digit[static_cast<std::uint64_t>(from[x] >> (shift + one * width)) & mask];
        }
      }
    }
  }

  static constexpr std::size_t kMaxCounts = std::size_t{64 / kMinDigitBits + 1} << kMaxDigitBits;
  // Not cleared: most sorts need a few of them, and pages without a write cost nothing.
  std::unique_ptr<std::uint32_t[]> counts_ = std::make_unique_for_overwrite<std::uint32_t[]>(kMaxCounts);
};

}  // namespace spmm::cpu
