#include "cpu/operands/order/radix_sort.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>
#include <vector>

#include "base/run/parallel.hpp"

namespace spmm::cpu {
namespace {

constexpr unsigned kMaxDigitBits = 11;                   // 2048 open cache lines still fit the second-level cache
constexpr std::uint64_t kMinSortedPerThread = 1u << 15;  // below it, starting a thread costs more than it saves

constexpr std::uint64_t kItemsPerCheck = 1u << 20;  // some milliseconds

using Counts = std::array<std::uint64_t, std::size_t{1} << kMaxDigitBits>;

std::uint64_t key_of(const SortItem& item) {
  return item.key;
}
std::uint64_t key_of(std::uint64_t item) {
  return item;
}

template <class Item>
void sort_items(std::span<Item> items, Item* scratch, unsigned first_bit, unsigned last_bit, unsigned num_threads,
                const Run* run) {
  if (items.size() < 2 || first_bit >= last_bit) return;
  const unsigned num_passes = (last_bit - first_bit + kMaxDigitBits - 1) / kMaxDigitBits;
  const unsigned digit_bits = (last_bit - first_bit + num_passes - 1) / num_passes;
  const std::uint64_t size = items.size();
  const auto num_workers =
      static_cast<unsigned>(std::clamp<std::uint64_t>(size / kMinSortedPerThread, 1, std::max(1u, num_threads)));
  std::vector<Counts> counts(num_workers);
  const auto by_workers = [&](const std::function<void(unsigned worker)>& body) {
    run != nullptr ? run->run_workers(num_workers, body) : run_workers(num_workers, body);
  };
  Item* from = items.data();
  Item* to = scratch;

  for (unsigned pass = 0; pass < num_passes; ++pass) {
    const unsigned shift = first_bit + pass * digit_bits;
    const std::size_t num_digits = std::size_t{1} << std::min(digit_bits, last_bit - shift);
    const auto digit = [&](const Item& item) { return (key_of(item) >> shift) & (num_digits - 1); };
    // Calls body for the items of one worker.
    const auto for_items = [&](unsigned worker, const auto& body) {
      const std::uint64_t last = size * (worker + 1) / num_workers;
      for (std::uint64_t x = size * worker / num_workers; x < last;) {
        if (run != nullptr) run->check_cancelled();
        for (const std::uint64_t stop = std::min(last, x + kItemsPerCheck); x < stop; ++x) body(from[x]);
      }
    };
    by_workers([&](unsigned worker) {
      Counts& mine = counts[worker];
      std::fill_n(mine.begin(), num_digits, 0);
      for_items(worker, [&](const Item& item) { ++mine[digit(item)]; });
    });
    std::uint64_t next = 0;
    for (std::size_t d = 0; d < num_digits; ++d) {
      for (Counts& of_worker : counts) next += std::exchange(of_worker[d], next);
    }
    by_workers([&](unsigned worker) {
      Counts& position = counts[worker];
      for_items(worker, [&](const Item& item) { to[position[digit(item)]++] = item; });
    });
    std::swap(from, to);
  }
  if (from != items.data()) std::copy_n(from, size, items.data());
}

}  // namespace

void radix_sort(std::span<SortItem> items, SortItem* scratch, unsigned first_bit, unsigned last_bit,
                unsigned num_threads, const Run* run) {
  sort_items(items, scratch, first_bit, last_bit, num_threads, run);
}

void radix_sort(std::span<std::uint64_t> items, std::uint64_t* scratch, unsigned first_bit, unsigned last_bit,
                unsigned num_threads, const Run* run) {
  sort_items(items, scratch, first_bit, last_bit, num_threads, run);
}

}  // namespace spmm::cpu
