// The pairs of a plan: of small blocks with the place of each in C, of short rows and side 8 listed by C block.
#include "cuda/planned_products.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <utility>

#include "kernels/blocks/arrays.hpp"
#include "kernels/blocks/launch.hpp"
#include "kernels/pairs/launch.hpp"
#include "kernels/small/launch.hpp"
#include "kernels/tuning.hpp"

namespace spmm::cuda {
namespace {

/// Rows of A and tasks, as the host cuts them.
struct Cut {
  std::vector<kernels::PlannedRow> rows;    // [rows of A + 1]
  std::vector<kernels::PlannedTask> tasks;  // [tasks + 1], with their first slots for pairs
  std::uint32_t task_blocks = 0;
  std::uint32_t max_row_blocks = 0;  // of A
};

template <class T>
std::vector<T> fetch_all(const T* from, std::uint64_t count, const Stream& stream) {
  std::vector<T> to(count);
  copy_async(to.data(), from, count, stream);
  stream.synchronize();
  return to;
}

/// Rows with few C blocks share a task, rows with many have several. Empty if slots cannot be numbered.
std::optional<Cut> cut_rows(const std::vector<std::uint32_t>& offsets, const std::vector<std::uint32_t>& first_blocks,
                            std::uint32_t m) {
  const std::uint32_t most = kernels::planned_row_words(m) / (m * m);
  constexpr std::uint32_t kTasks = 1024;  // of small products, so that all multiprocessors have some
  const std::uint32_t full = kernels::kPlannedTaskWords / (m * m);
  const std::uint32_t wanted = std::clamp(first_blocks.back() / kTasks, full / 8, full);
  const std::size_t num_rows = offsets.size() - 1;
  Cut cut;
  cut.rows.reserve(num_rows + 1);
  std::uint64_t slot = 0;
  bool is_open = false;
  for (std::size_t row = 0; row < num_rows; ++row) {
    const std::uint32_t row_blocks = offsets[row + 1] - offsets[row];
    const std::uint32_t first = first_blocks[row];
    const std::uint32_t num_blocks = first_blocks[row + 1] - first;
    cut.max_row_blocks = std::max(cut.max_row_blocks, row_blocks);
    const auto first_slot = static_cast<std::uint32_t>(slot);
    if (num_blocks > most) {
      const std::uint32_t chunk = (num_blocks - 1) / ((num_blocks - 1) / most + 1) + 1;
      cut.rows.push_back({.first_slot = first_slot, .first_block = first, .base = first, .chunk_blocks = chunk});
      for (std::uint32_t at = 0; at < num_blocks; at += chunk, slot += row_blocks) {
        cut.tasks.push_back({.first_pair = static_cast<std::uint32_t>(slot), .first_block = first + at});
      }
      is_open = false;
    } else {
      if (!is_open || first_blocks[row + 1] - cut.tasks.back().first_block > wanted) {
        cut.tasks.push_back({.first_pair = first_slot, .first_block = first});
        is_open = true;
      }
      cut.rows.push_back(
          {.first_slot = first_slot, .first_block = first, .base = cut.tasks.back().first_block, .chunk_blocks = 0});
      slot += row_blocks;
    }
    if (slot >= std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  }
  cut.rows.push_back({.first_slot = static_cast<std::uint32_t>(slot), .first_block = first_blocks.back()});
  cut.tasks.push_back({.first_pair = static_cast<std::uint32_t>(slot), .first_block = first_blocks.back()});
  for (std::size_t t = 0; t + 1 < cut.tasks.size(); ++t) {
    cut.task_blocks = std::max(cut.task_blocks, cut.tasks[t + 1].first_block - cut.tasks[t].first_block);
  }
  return cut;
}

class PlacedPairs : public PlannedProducts {
 public:
  PlacedPairs(DeviceOperands& operands, const PlannedPattern& pattern, DeviceMemory& memory)
      : stream_(memory.stream()), m_(operands.m), num_a_(operands.a.columns.size()) {
    const std::uint64_t num_borders = operands.a.num_rows + std::uint64_t{1};
    const bool in_file_order = operands.a_numbers.size() != 0;
    const kernels::PlannedOperands view{.a = operands.a.view(),
                                        .b = operands.b.view(),
                                        .b_row_index = operands.b_row_index.data(),
                                        .a_order = in_file_order ? operands.a_numbers.data() : operands.a_order.data(),
                                        .heads = pattern.heads,
                                        .num_blocks = static_cast<std::uint32_t>(pattern.num_blocks)};
    const DeviceBuffer<std::uint32_t> first_blocks(memory, num_borders, "C blocks before rows");
    kernels::launch_planned_rows(view, first_blocks.data(), stream_.get());
    const std::optional<Cut> cut = cut_rows(fetch_all(view.a.offsets, num_borders, stream_),
                                            fetch_all(first_blocks.data(), num_borders, stream_), m_);
    if (!cut) return;
    const DeviceBuffer<kernels::PlannedRow> rows(memory, num_borders, "rows of a plan");
    copy_async(rows.data(), cut->rows.data(), num_borders, stream_);
    tasks_ = {memory, cut->tasks.size(), "tasks"};
    copy_async(tasks_.data(), cut->tasks.data(), tasks_.size(), stream_);
    place(view, rows.data(), cut->rows.back().first_slot, memory);
    b_values_ = {memory, operands.b.columns.size() * m_ * m_, "elements"};
    largest_ = {memory, 1, "largest element"};
    stream_.synchronize();  // `cut` has been copied
    b_order_ = std::move(in_file_order ? operands.b_numbers : operands.b_order);
    max_row_blocks_ = cut->max_row_blocks;
    task_blocks_ = cut->task_blocks;
  }

  /// False if slots cannot be numbered.
  [[nodiscard]] bool is_placed() const { return task_blocks_ != 0; }

  void multiply(const std::uint16_t* a, const std::uint16_t* b, std::uint32_t* c) const override {
    const cudaStream_t stream = stream_.get();
    check(cudaMemsetAsync(largest_.data(), 0, sizeof(std::uint32_t), stream), "clear");
    kernels::launch_max_element(a, num_a_ * m_ * m_, largest_.data(), stream);
    kernels::launch_transpose_blocks({.values = b, .count = b_order_.size()}, b_order_.data(), m_, b_values_.data(),
                                     largest_.data(), stream);
    kernels::launch_mul_planned_pairs(
        kept(),
        {.a = a, .b = b_values_.data(), .c = c, .m = m_, .max_row_blocks = max_row_blocks_, .largest = largest_.data()},
        stream);
  }

 private:
  void place(const kernels::PlannedOperands& view, const kernels::PlannedRow* rows, std::uint32_t num_slots,
             DeviceMemory& memory) {
    const cudaStream_t stream = stream_.get();
    const DeviceBuffer<std::uint32_t> counts(memory, num_slots, "pairs of slots");
    const DeviceBuffer<std::uint64_t> sums(memory, num_slots + std::uint64_t{1}, "pairs before slots");
    const DeviceBuffer<std::byte> work(memory, kernels::planned_sums_workspace_bytes(num_slots), "scan work space");
    kernels::launch_planned_sums(view, rows, num_slots, counts.data(), sums.data(),
                                 {.data = work.data(), .bytes = work.size()}, stream);
    const std::uint64_t all = fetch(sums.data() + num_slots, stream_);
    const auto num_pairs = static_cast<std::uint32_t>(all);
    words_ = {memory, num_pairs / 32 + std::uint64_t{1}, "starts of segments"};
    places_ = {memory, num_pairs, "places of pairs"};
    segments_ = {memory, all >> 32, "segments"};
    check(cudaMemsetAsync(words_.data(), 0, words_.size() * sizeof(kernels::PlannedWord), stream), "clear");
    kernels::launch_planned_pairs(view, rows, num_slots, sums.data(), kept(), stream);
  }

  [[nodiscard]] kernels::PlannedPairs kept() const {
    return {.words = words_.data(),
            .places = places_.data(),
            .segments = segments_.data(),
            .tasks = tasks_.data(),
            .num_tasks = static_cast<std::uint32_t>(tasks_.size() - 1),
            .task_blocks = task_blocks_};
  }

  const Stream& stream_;
  std::uint32_t m_;
  std::uint64_t num_a_;                             // blocks of A
  std::uint64_t max_row_blocks_ = 0;                // of A
  DeviceBuffer<kernels::PlannedWord> words_;        // [num_pairs / 32 + 1]
  DeviceBuffer<std::uint16_t> places_;              // [num_pairs]
  DeviceBuffer<kernels::PlannedSegment> segments_;  // [segments]
  DeviceBuffer<kernels::PlannedTask> tasks_;        // [num_tasks + 1]
  DeviceBuffer<std::uint32_t> b_order_;             // [nnzb of B]: block of the caller
  DeviceBuffer<std::uint16_t> b_values_;            // [nnzb of B, m, m], transposed
  DeviceBuffer<std::uint32_t> largest_;             // [1], element of both operands
  std::uint32_t task_blocks_ = 0;
};

class ListedPairs : public PlannedProducts {
 public:
  ListedPairs(const DeviceOperands& operands, const kernels::PanelPairs& all, std::uint64_t max_row_pairs,
              std::uint32_t num_c_blocks, DeviceMemory& memory)
      : stream_(memory.stream()),
        num_c_blocks_(num_c_blocks),
        offsets_(memory, all.num_pairs + 1, "pair offsets of C blocks"),
        pairs_(memory, all.num_pairs, "pairs") {
    const DeviceBuffer<std::uint64_t> keys(memory, all.num_pairs, "C block keys");
    const DeviceBuffer<std::uint32_t> count(memory, 1, "count");
    const DeviceBuffer<std::byte> work(memory, kernels::short_rows_workspace_bytes(all.num_pairs, max_row_pairs),
                                       "pair work space");
    PinnedWord host_count(memory.context());
    kernels::PairListBuffers buffers{.keys = {},
                                     .pairs = {{pairs_.data(), nullptr}},
                                     .c_block_keys = keys.data(),
                                     .offsets = offsets_.data(),
                                     .num_c_blocks = count.data(),
                                     .host_num_c_blocks = host_count.data()};
    kernels::launch_list_short_rows(operands.expand_view(), all, max_row_pairs, buffers,
                                    {.data = work.data(), .bytes = work.size()}, stream_.get());
    if (operands.a_numbers.size() == 0) {  // pairs name positions
      kernels::launch_name_planned_pairs(operands.a_order.data(), operands.b_order.data(), all.num_pairs, pairs_.data(),
                                         stream_.get());
    }
    stream_.synchronize();  // the word of the host has been written
  }

  void multiply(const std::uint16_t* a, const std::uint16_t* b, std::uint32_t* c) const override {
    kernels::launch_mul_planned_list(
        {.num_c_blocks = num_c_blocks_, .offsets = offsets_.data(), .pairs = pairs_.data()}, a, b, c, stream_.get());
  }

 private:
  const Stream& stream_;
  std::uint32_t num_c_blocks_;
  DeviceBuffer<std::uint32_t> offsets_;     // [num_pairs + 1], of which C blocks have the first ones
  DeviceBuffer<kernels::BlockPair> pairs_;  // [num_pairs]
};

}  // namespace

std::unique_ptr<PlannedProducts> place_pairs(DeviceOperands& operands, const PlannedPattern& pattern,
                                             DeviceMemory& memory) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max() - 64;
  if (pattern.num_blocks == 0 || pattern.num_blocks > kMost || pattern.num_pairs > kMost) return nullptr;
  try {
    auto pairs = std::make_unique<PlacedPairs>(operands, pattern, memory);
    if (!pairs->is_placed()) return nullptr;
    return pairs;
  } catch (const OutOfMemory&) {  // what there is will do
    return nullptr;
  }
}

std::unique_ptr<PlannedProducts> list_pairs(const DeviceOperands& operands, const std::vector<plan::Panel>& panels,
                                            const PlannedPattern& pattern, DeviceMemory& memory) {
  const bool is_short = std::all_of(panels.begin(), panels.end(), [](const plan::Panel& panel) {
    return panel.expand && panel.max_row_pairs <= kernels::kShortRowPairs;
  });
  if (operands.m != kernels::kPlannedListSide || !is_short || pattern.num_blocks == 0) return nullptr;
  kernels::PanelPairs all{.num_rows = operands.a.num_rows,
                          .column_bits = static_cast<unsigned>(std::bit_width(operands.num_c_columns()))};
  std::uint64_t max_row_pairs = 0;
  for (const plan::Panel& panel : panels) {
    all.num_pairs += panel.num_pairs;
    max_row_pairs = std::max(max_row_pairs, panel.max_row_pairs);
  }
  if (all.num_pairs >= std::numeric_limits<std::uint32_t>::max()) return nullptr;
  try {
    return std::make_unique<ListedPairs>(operands, all, max_row_pairs, static_cast<std::uint32_t>(pattern.num_blocks),
                                         memory);
  } catch (const OutOfMemory&) {  // what there is will do
    return nullptr;
  }
}

}  // namespace spmm::cuda
