// Both operands sorted by counting and their pairs counted: work that wants nothing of the host before its end, so that
// it can be put on the stream while records are still on their way.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "cuda/device/raii.hpp"
#include "cuda/operands/operands.hpp"
#include "kernels/blocks/launch.hpp"
#include "kernels/tuning.hpp"

namespace spmm::cuda {

/// Stream: everything in the order of memory.stream(). Threads: one at a time.
class CountedSort {
 public:
  /// Puts the sort on the stream (stage build), the counting, and what brings everything that was found to the host
  /// (stage count). Null if both matrices had better be sorted otherwise: one has no blocks, they have many, or long
  /// rows, or need more memory than most_bytes in all. The references must outlive it, `parsed` its keys alone, until
  /// the stream is done with them.
  static std::unique_ptr<CountedSort> queue(const SortedOperands& parsed, std::uint64_t most_bytes,
                                            DeviceMemory& memory, StageEvents& events) {
    const std::uint32_t nb = parsed.nb;
    const std::uint64_t a_blocks = parsed.a.keys.size();
    const std::uint64_t b_blocks = parsed.b.keys.size();
    const bool are_sorted = parsed.a.in_order && parsed.b.in_order;
    const std::uint64_t most = std::max(a_blocks, b_blocks);
    if (std::min(a_blocks, b_blocks) == 0 || nb > 2 * most) return nullptr;
    if (!are_sorted && most > kernels::kCountedBlocks) return nullptr;
    const bool has_short_rows =
        nb <= kernels::kBitmapColumns || most <= kernels::kCountedMeanBlocks * std::uint64_t{nb};
    if (!are_sorted && !has_short_rows) return nullptr;
    std::unique_ptr<CountedSort> sort(new CountedSort(memory));
    if (!memory.fits(most_bytes, [&] { sort->put_on_stream(parsed, events); })) return nullptr;
    return sort;
  }

  CountedSort(const CountedSort&) = delete;
  CountedSort& operator=(const CountedSort&) = delete;
  /// Waits if something may still be written to the host.
  ~CountedSort() { memory_.stream().settle(); }

  /// Waits, and sorts `out`, whose keys are exchanged. False, and `out` as it was, if a row is too long for it or a
  /// block comes twice.
  bool take(SortedOperands& out) {
    memory_.stream().synchronize();
    Found found{};
    std::memcpy(static_cast<void*>(&found), table_.data(), sizeof found);
    if (!found.sorts[0].is_sorted() || !found.sorts[1].is_sorted()) return false;
    for (std::size_t x = 0; x < 2; ++x) {
      SortedRows& rows = x == 0 ? out.a : out.b;
      rows.index = std::move(sorted_[x].index);
      rows.index.num_rows = found.sorts[x].num_rows;
      rows.numbers = std::move(sorted_[x].numbers);
      rows.keys = std::move(sorted_[x].keys);
    }
    out.b_row_index = std::move(b_row_index_);
    out.pair_offsets = std::move(pair_offsets_);
    set_row_pairs(out, kMaxCountedRuns,
                  reinterpret_cast<const std::uint64_t*>(table_.data() + sizeof found / sizeof(std::uint32_t)),
                  found.totals);
    return true;
  }

 private:
  /// What comes to the host, offsets of runs behind it; zeros before.
  struct Found {
    std::array<kernels::SortFindings, 2> sorts;
    kernels::MatchTotals totals;
  };

  explicit CountedSort(DeviceMemory& memory) : memory_(memory), table_(memory.context().tables()) {}

  void put_on_stream(const SortedOperands& parsed, StageEvents& events) {
    const Stream& stream = memory_.stream();
    const std::uint32_t nb = parsed.nb;
    const std::uint64_t num_counters = std::uint64_t{nb} * 2 * kernels::counter_stride(nb);  // of both; even
    const auto max_rows = static_cast<std::uint32_t>(plan::IndexLayout(parsed.a.keys.size(), nb).rows);
    const std::uint64_t num_offsets = std::min(max_rows, kMaxCountedRuns) + std::uint64_t{1};
    const std::uint64_t num_found = sizeof(Found) / 4 + 2 * num_offsets;  // words that come to the host
    DeviceScratch scratch(memory_);
    auto* const counts = scratch.take<std::uint32_t>(num_counters + num_found, "row counts");
    auto* const found = reinterpret_cast<Found*>(counts + num_counters);  // addresses alone
    auto* const borders = scratch.take<std::uint64_t>(std::uint64_t{nb} * 2 + 1, "row borders");
    const std::uint64_t num_a = parsed.a.keys.size();
    const kernels::Workspace work = scratch.take_work(
        std::max(kernels::sort_rows_workspace_bytes(std::uint64_t{nb} * 2), kernels::count_workspace_bytes(num_a)),
        "sort work space");
    b_row_index_ = {memory_, num_a, "row index"};
    pair_offsets_ = {memory_, num_a + 1, "pair offsets"};
    std::vector<kernels::RowSort> sorts;
    for (std::size_t x = 0; x < 2; ++x) {
      const SortedRows& from = x == 0 ? parsed.a : parsed.b;
      SortedRows& to = sorted_[x];
      const std::uint64_t count = from.keys.size();
      to.index = {{count, nb}, memory_};
      to.index.num_rows = static_cast<std::uint32_t>(to.index.rows.size());  // at most
      to.numbers = {memory_, count, "record numbers"};
      to.keys = {memory_, count, "sort keys"};
      sorts.push_back({.count = count,
                       .is_sorted = from.in_order,
                       .keys = from.keys.data(),
                       .entries = scratch.take<std::uint64_t>(from.in_order ? 0 : count, "sort keys"),
                       .sorted_keys = to.keys.data(),
                       .numbers = to.numbers.data(),
                       .columns = to.index.columns.data(),
                       .rows = to.index.rows.data(),
                       .offsets = to.index.offsets.data(),
                       .num_rows = &found->sorts[x].num_rows,
                       .longest_row = &found->sorts[x].longest_row,
                       .has_duplicate = &found->sorts[x].has_duplicate});
    }
    events.timed(Stage::build, stream, [&] {
      check(cudaMemsetAsync(counts, 0, (num_counters + num_found) * sizeof(std::uint32_t), stream.get()), "clear");
      kernels::launch_sort_rows(sorts, {.counts = counts, .borders = borders, .work = work}, nb, parsed.key_bits,
                                stream.get());
    });
    events.timed(Stage::count, stream, [&] {
      kernels::launch_match_blocks({.a = sorted_[0].index.view(),
                                    .b = sorted_[1].index.view(),
                                    .a_found = &found->sorts[0],
                                    .b_found = &found->sorts[1],
                                    .pair_offsets = pair_offsets_.data(),
                                    .max_runs = kMaxCountedRuns,
                                    .totals = &found->totals,
                                    .run_offsets = reinterpret_cast<std::uint64_t*>(found + 1)},
                                   borders + nb, b_row_index_.data(), num_a, work, stream.get());
      kernels::launch_copy_to_host(counts + num_counters, static_cast<std::uint32_t>(num_found), table_.data(),
                                   stream.get());
    });
  }

  DeviceMemory& memory_;
  std::array<SortedRows, 2> sorted_;          // index, numbers, keys
  DeviceBuffer<std::uint32_t> b_row_index_;   // [blocks of A]
  DeviceBuffer<std::uint64_t> pair_offsets_;  // [blocks of A + 1]
  PinnedTable table_;                         // Found, then offsets of runs
};

}  // namespace spmm::cuda
