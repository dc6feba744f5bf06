// Both operands sorted by counting and their pairs counted: work that wants nothing of the host before its end, so that
// it can be put on the stream while records are still on their way.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
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
  /// Null if both matrices had better be sorted otherwise: they have many blocks, or long rows, or need more memory
  /// than most_bytes. The references must outlive it, `parsed` its keys alone, until the stream is done with them.
  static std::unique_ptr<CountedSort> make(const SortedOperands& parsed, std::uint64_t most_bytes,
                                           DeviceMemory& memory) {
    const std::uint32_t nb = parsed.nb;
    const std::uint64_t a_blocks = parsed.a.keys.size();
    const std::uint64_t b_blocks = parsed.b.keys.size();
    const bool are_sorted = parsed.a.in_order && parsed.b.in_order;
    const std::uint64_t most = std::max(a_blocks, b_blocks);
    if (nb > 2 * most) return nullptr;
    if (!are_sorted && most > kernels::kCountedBlocks) return nullptr;
    const bool has_short_rows =
        nb <= kernels::kBitmapColumns || most <= kernels::kCountedMeanBlocks * std::uint64_t{nb};
    if (!are_sorted && !has_short_rows) return nullptr;
    constexpr std::uint64_t kSmall = 1u << 20;  // findings, pairs of runs, library work space beside the counters
    const std::uint64_t of_block = are_sorted ? 12 : 20;                // number, key; an entry
    const std::uint64_t of_row = 12 + 4 * kernels::counter_stride(nb);  // counter, border, work space of their scan
    const plan::IndexLayout a(a_blocks, nb);
    const std::uint64_t of_pairs = 4 * a_blocks + 16 * a.rows;  // row of B of each block, pairs of rows and before them
    const std::uint64_t need = a.bytes() + plan::IndexLayout(b_blocks, nb).bytes() + of_block * (a_blocks + b_blocks) +
                               2 * of_row * nb + of_pairs + kSmall;
    if (need > most_bytes) return nullptr;
    return std::unique_ptr<CountedSort>(new CountedSort(parsed, memory));
  }

  CountedSort(const CountedSort&) = delete;
  CountedSort& operator=(const CountedSort&) = delete;
  /// Waits if something may still be written to the host.
  ~CountedSort() {
    if (is_queued_) memory_.stream().settle();
  }

  /// Puts the sort on the stream (stage build).
  void sort(const SortedOperands& parsed) {
    const std::array<const std::uint64_t*, 2> keys{parsed.a.keys.data(), parsed.b.keys.data()};
    Found* const found_there = found();  // addresses alone
    std::vector<kernels::RowSort> sorts;
    for (std::size_t x = 0; x < 2; ++x) {
      const Side& side = sides_[x];
      if (side.num_blocks == 0) continue;
      kernels::SortFindings& found = found_there->sorts[x];
      sorts.push_back({.count = side.num_blocks,
                       .is_sorted = x == 0 ? parsed.a.in_order : parsed.b.in_order,
                       .keys = keys[x],
                       .entries = side.entries.data(),
                       .sorted_keys = side.keys.data(),
                       .numbers = side.numbers.data(),
                       .columns = side.index.columns.data(),
                       .rows = side.index.rows.data(),
                       .offsets = side.index.offsets.data(),
                       .num_rows = &found.num_rows,
                       .longest_row = &found.longest_row,
                       .has_duplicate = &found.has_duplicate});
    }
    const cudaStream_t stream = memory_.stream().get();
    check(cudaMemsetAsync(counts_.data(), 0, counts_.size() * sizeof(std::uint32_t), stream), "clear counts");
    kernels::launch_sort_rows(sorts, {.counts = counts_.data(), .borders = borders_, .work = work_}, nb_, key_bits_,
                              stream);
    for (Side& side : sides_) side.entries = {};
  }

  /// Puts the counting on the stream, and what brings everything that was found to the host (stage count).
  void count() {
    const cudaStream_t stream = memory_.stream().get();
    Found* const found_there = found();
    if (counts_pairs()) {
      const auto rows_of = [&](const Side& side) {
        kernels::CompressedView rows = side.index.view();
        rows.num_rows = static_cast<std::uint32_t>(side.index.rows.size());
        return rows;
      };
      kernels::launch_match_rows({.a = rows_of(sides_[0]),
                                  .b = rows_of(sides_[1]),
                                  .num_a_blocks = sides_[0].num_blocks,
                                  .a_found = &found_there->sorts[0],
                                  .b_found = &found_there->sorts[1],
                                  .b_borders = borders_ + nb_,
                                  .b_row_index = b_row_index_.data(),
                                  .row_pairs = row_pairs_,
                                  .row_offsets = row_offsets_,
                                  .max_runs = kMaxCountedRuns,
                                  .totals = &found_there->totals,
                                  .run_offsets = reinterpret_cast<std::uint64_t*>(found_there + 1),
                                  .work = work_},
                                 stream);
    }
    scratch_.reset();
    is_queued_ = true;
    kernels::launch_copy_to_host(reinterpret_cast<const std::uint32_t*>(found_there),
                                 static_cast<std::uint32_t>(sizeof(Found) / 4 + 2 * num_offsets_), table_.data(),
                                 stream);
    done_.record(memory_.stream());
  }

  /// Waits, and sorts `out`, whose keys are exchanged. False, and `out` as it was, if a row is too long for it or a
  /// block comes twice.
  bool take(SortedOperands& out) {
    done_.synchronize();
    is_queued_ = false;
    Found found{};
    std::memcpy(static_cast<void*>(&found), table_.data(), sizeof found);
    if (!found.sorts[0].is_sorted() || !found.sorts[1].is_sorted()) return false;
    for (std::size_t x = 0; x < 2; ++x) {
      SortedRows& rows = x == 0 ? out.a : out.b;
      rows.index = std::move(sides_[x].index);
      rows.index.num_rows = found.sorts[x].num_rows;
      rows.numbers = std::move(sides_[x].numbers);
      rows.keys = std::move(sides_[x].keys);
    }
    if (counts_pairs()) {
      out.b_row_index = std::move(b_row_index_);
      set_row_pairs(out, kMaxCountedRuns,
                    reinterpret_cast<const std::uint64_t*>(table_.data() + sizeof found / sizeof(std::uint32_t)),
                    found.totals);
    }
    return true;
  }

 private:
  /// What comes to the host, offsets of runs behind it; zeros before.
  struct Found {
    std::array<kernels::SortFindings, 2> sorts;
    kernels::MatchTotals totals;
  };
  /// A matrix on its way.
  struct Side {
    std::uint64_t num_blocks = 0;
    CompressedRows index{};
    DeviceBuffer<std::uint32_t> numbers{};
    DeviceBuffer<std::uint64_t> keys{};
    DeviceBuffer<std::uint64_t> entries{};
  };

  CountedSort(const SortedOperands& parsed, DeviceMemory& memory)
      : memory_(memory), nb_(parsed.nb), key_bits_(parsed.key_bits), table_(memory.context()) {
    sides_[0].num_blocks = parsed.a.keys.size();
    sides_[1].num_blocks = parsed.b.keys.size();
    std::uint64_t num_sorts = 0;
    for (Side& side : sides_) {
      const std::uint64_t count = side.num_blocks;
      if (count == 0) continue;
      ++num_sorts;
      side.index = {{count, nb_}, memory};
      side.numbers = {memory, count, "record numbers"};
      side.keys = {memory, count, "sort keys"};
      const bool is_sorted = &side == &sides_[0] ? parsed.a.in_order : parsed.b.in_order;
      side.entries = {memory, is_sorted ? 0 : count, "sort keys"};
    }
    num_counts_ = nb_ * num_sorts;
    std::size_t work_bytes = kernels::sort_rows_workspace_bytes(num_counts_);
    if (num_sorts == 2) {
      const auto max_rows = static_cast<std::uint32_t>(sides_[0].index.rows.size());
      num_offsets_ = std::min(max_rows, kMaxCountedRuns) + std::uint64_t{1};
      b_row_index_ = {memory, sides_[0].num_blocks, "row index"};
      row_pairs_ = scratch_->take<std::uint64_t>(max_rows, "row pairs");
      row_offsets_ = scratch_->take<std::uint64_t>(max_rows + std::uint64_t{1}, "row pair offsets");
      work_bytes = std::max(work_bytes, kernels::match_workspace_bytes(max_rows));
    }
    counts_ = {memory, counter_words() + sizeof(Found) / 4 + 2 * num_offsets_, "row counts"};
    borders_ = scratch_->take<std::uint64_t>(num_counts_ + 1, "row borders");
    work_ = scratch_->take_work(work_bytes, "sort work space");
  }

  /// Whether pairs are counted: there are two matrices.
  [[nodiscard]] bool counts_pairs() const { return num_offsets_ != 0; }
  [[nodiscard]] Found* found() const { return reinterpret_cast<Found*>(counts_.data() + counter_words()); }
  /// Padded: words of eight bytes follow.
  [[nodiscard]] std::uint64_t counter_words() const { return (num_counts_ * kernels::counter_stride(nb_) + 1) / 2 * 2; }

  DeviceMemory& memory_;
  std::uint32_t nb_;
  unsigned key_bits_;
  std::array<Side, 2> sides_;
  std::uint64_t num_counts_;                       // of both sides
  std::uint64_t num_offsets_ = 0;                  // of runs of rows of A, at most; 0 = pairs are not counted
  DeviceBuffer<std::uint32_t> counts_;             // [counter_words]; behind them Found and offsets of runs
  DeviceBuffer<std::uint32_t> b_row_index_;        // [blocks of A]
  std::optional<DeviceScratch> scratch_{memory_};  // of the next ones, until everything is on the stream
  std::uint64_t* borders_ = nullptr;               // [num_counts + 1]
  std::uint64_t* row_pairs_ = nullptr;             // [rows of A at most]
  std::uint64_t* row_offsets_ = nullptr;           // [rows of A at most + 1]
  kernels::Workspace work_;
  PinnedTable table_;  // Found, then offsets
  Event done_;
  bool is_queued_ = false;
};

}  // namespace spmm::cuda
