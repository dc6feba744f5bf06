// A product whose pattern is known: what stays on the device between its multiplications.
#include "cuda/planned.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "cuda/arrays/collector.hpp"
#include "kernels/blocks/arrays.hpp"
#include "kernels/blocks/launch.hpp"
#include "kernels/pairs/launch.hpp"
#include "kernels/small/launch.hpp"
#include "kernels/tuning.hpp"
#include "plan/registry.hpp"

namespace spmm::cuda {
namespace {

constexpr std::uint64_t kMostNumbered = std::numeric_limits<std::uint32_t>::max() - 64;

/// The pairs of a plan, which keeps nothing else then. Threads: one at a time, with the device current.
class KeptPairs {
 public:
  KeptPairs() = default;
  KeptPairs(const KeptPairs&) = delete;
  KeptPairs& operator=(const KeptPairs&) = delete;
  virtual ~KeptPairs() = default;

  /// C = A * B in the order of the stream; as DevicePlan::multiply.
  virtual void multiply(const std::uint16_t* a, const std::uint16_t* b, std::uint32_t* c) const = 0;
};

/// Rows of A and tasks, as the host cuts them.
struct Cut {
  std::vector<kernels::PlannedRow> rows;    // [rows of A + 1]
  std::vector<kernels::PlannedTask> tasks;  // [tasks + 1], with their first slots for pairs
  std::uint32_t task_blocks = 0;
  std::uint32_t max_row_blocks = 0;  // of A
};

/// Rows with few C blocks share a task, rows with many have several. Errors: OutOfMemory if slots cannot be numbered.
Cut cut_rows(const std::vector<std::uint32_t>& offsets, const std::vector<std::uint32_t>& first_blocks,
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
    if (slot >= kMostNumbered) throw OutOfMemory("pairs of a plan", "there are too many rows and pairs", "");
  }
  cut.rows.push_back({.first_slot = static_cast<std::uint32_t>(slot), .first_block = first_blocks.back()});
  cut.tasks.push_back({.first_pair = static_cast<std::uint32_t>(slot), .first_block = first_blocks.back()});
  for (std::size_t t = 0; t + 1 < cut.tasks.size(); ++t) {
    cut.task_blocks = std::max(cut.task_blocks, cut.tasks[t + 1].first_block - cut.tasks[t].first_block);
  }
  return cut;
}

/// The pairs of small blocks, each with its place in C. Takes what it needs of the operands if it succeeds.
/// Values: operands by rows, neither padded nor in file order, with their order and the pairs of blocks of A.
/// Memory: 2.25 bytes a pair, 8 for each block of A and chunk of its row, B once more.
class PlacedPairs : public KeptPairs {
 public:
  PlacedPairs(SortedOperands& operands, const std::uint32_t* heads, std::uint32_t num_c_blocks, DeviceMemory& memory)
      : stream_(memory.stream()), kept_(memory), m_(operands.m), num_a_(operands.num_a()) {
    const cudaStream_t stream = stream_.get();
    const std::uint64_t num_borders = operands.a.index.num_rows + std::uint64_t{1};
    kernels::PlannedPattern pattern{.product = operands.product(), .heads = heads, .num_blocks = num_c_blocks};
    pattern.product.a.numbers = operands.a.numbers.data();  // blocks of the caller
    DeviceScratch scratch(memory);
    auto* const first_blocks = scratch.take<std::uint32_t>(num_borders, "C blocks before rows");
    kernels::launch_planned_rows(pattern, first_blocks, stream);
    const Cut cut = cut_rows(fetch_all(pattern.product.a.index.offsets, num_borders, stream_),
                             fetch_all(first_blocks, num_borders, stream_), m_);
    auto* const rows = scratch.take<kernels::PlannedRow>(num_borders, "rows of a plan");
    copy_async(rows, cut.rows.data(), num_borders, stream_);
    pairs_.tasks = kept_.take<kernels::PlannedTask>(cut.tasks.size(), "tasks");
    copy_async(pairs_.tasks, cut.tasks.data(), cut.tasks.size(), stream_);
    const std::uint32_t num_slots = cut.rows.back().first_slot;
    pattern.rows = rows;
    pattern.num_slots = num_slots;
    auto* const sums = scratch.take<std::uint64_t>(num_slots + std::uint64_t{1}, "pairs before slots");
    kernels::launch_planned_sums(pattern, scratch.take<std::uint32_t>(num_slots, "pairs of slots"), sums,
                                 scratch.take_work(kernels::planned_sums_workspace_bytes(num_slots), "scan work space"),
                                 stream);
    const std::uint64_t all = fetch(sums + num_slots, stream_);
    const auto num_pairs = static_cast<std::uint32_t>(all);
    const std::uint64_t num_words = num_pairs / 32 + std::uint64_t{1};
    pairs_.words = kept_.take<kernels::PlannedWord>(num_words, "starts of segments");
    pairs_.places = kept_.take<std::uint16_t>(num_pairs, "places of pairs");
    pairs_.segments = kept_.take<kernels::PlannedSegment>(all >> 32, "segments");
    pairs_.num_tasks = static_cast<std::uint32_t>(cut.tasks.size() - 1);
    pairs_.task_blocks = cut.task_blocks;
    check(cudaMemsetAsync(pairs_.words, 0, num_words * sizeof(kernels::PlannedWord), stream), "clear");
    kernels::launch_planned_pairs(pattern, sums, pairs_, stream);
    b_values_ = kept_.take<std::uint16_t>(operands.num_b() * m_ * m_, "elements");
    largest_ = kept_.take<std::uint32_t>(1, "largest element");
    stream_.synchronize();  // `cut` has been copied
    b_order_ = std::move(operands.b.numbers);
    max_row_blocks_ = cut.max_row_blocks;
  }

  void multiply(const std::uint16_t* a, const std::uint16_t* b, std::uint32_t* c) const override {
    const cudaStream_t stream = stream_.get();
    check(cudaMemsetAsync(largest_, 0, sizeof(std::uint32_t), stream), "clear");
    kernels::launch_max_element(a, num_a_ * m_ * m_, largest_, stream);
    kernels::launch_transpose_blocks({.values = b, .count = b_order_.size()}, b_order_.data(), m_, b_values_, largest_,
                                     stream);
    kernels::launch_mul_planned_pairs(
        pairs_, {.a = a, .b = b_values_, .c = c, .m = m_, .max_row_blocks = max_row_blocks_, .largest = largest_},
        stream);
  }

 private:
  const Stream& stream_;
  DeviceScratch kept_;
  std::uint32_t m_;
  std::uint64_t num_a_;               // blocks of A
  std::uint64_t max_row_blocks_ = 0;  // of A
  kernels::PlannedPairs pairs_;
  DeviceBuffer<std::uint32_t> b_order_;  // [nnzb of B]: block of the caller
  std::uint16_t* b_values_ = nullptr;    // [nnzb of B, m, m], transposed
  std::uint32_t* largest_ = nullptr;     // [1], element of both operands
};

/// The pairs of short rows and side 8, listed by C block. Values: operands by rows, with their order and the pairs of
/// blocks of A; those of a multiplication are read where the caller has them. Memory: 12 bytes a pair.
class ListedPairs : public KeptPairs {
 public:
  ListedPairs(const SortedOperands& operands, const kernels::PanelPairs& all, std::uint64_t max_row_pairs,
              std::uint32_t num_c_blocks, DeviceMemory& memory)
      : stream_(memory.stream()), kept_(memory) {
    auto* const offsets = kept_.take<std::uint32_t>(all.num_pairs + 1, "pair offsets of C blocks");
    auto* const pairs = kept_.take<kernels::BlockPair>(all.num_pairs, "pairs");
    list_ = {.num_c_blocks = num_c_blocks, .offsets = offsets, .pairs = pairs};
    DeviceScratch scratch(memory);
    const PinnedTable host_count(memory.context().tables());
    kernels::PairListBuffers buffers{.keys = {},
                                     .pairs = {{pairs, nullptr}},
                                     .c_block_keys = scratch.take<std::uint64_t>(all.num_pairs, "C block keys"),
                                     .offsets = offsets,
                                     .num_c_blocks = scratch.take<std::uint32_t>(1, "count"),
                                     .host_num_c_blocks = host_count.data()};
    kernels::RowProduct product = operands.product();
    product.a.numbers = operands.a.numbers.data();  // pairs name blocks of the caller
    product.b.numbers = operands.b.numbers.data();
    kernels::launch_list_short_rows(
        product, all, max_row_pairs, buffers,
        scratch.take_work(kernels::short_rows_workspace_bytes(all.num_pairs, max_row_pairs), "pair work space"),
        stream_.get());
    stream_.synchronize();  // the word of the host has been written
  }

  void multiply(const std::uint16_t* a, const std::uint16_t* b, std::uint32_t* c) const override {
    kernels::launch_mul_planned_list(list_, a, b, c, stream_.get());
  }

 private:
  const Stream& stream_;
  DeviceScratch kept_;
  kernels::PairListView list_;
};

/// Keeps the operands as they were arranged for the pattern, and their multiplier; or the pairs alone.
class KeptProduct : public KeptPlan {
 public:
  KeptProduct(const DeviceRun& run, const Source& a, const Source& b, const plan::Choice& expected)
      : KeptPlan(run, expected), m_(a.header().m), stream_(memory().stream()) {
    SortedOperands parsed = ArrayOperands(arrays(), memory()).read(a.header(), pipeline_.events());
    const std::uint32_t largest = std::max(parsed.a.max_element, parsed.b.max_element);  // of the arrays; 0: no values
    const DeviceBuffer<std::uint16_t> ones = set_to_ones(parsed);  // that operands in file order borrow
    parsed.keeps_order = true;
    pipeline_.arrange(std::move(parsed), a, b);
    find_pattern();
    if (keep_pairs()) return;
    const bool any_visits =
        std::any_of(panels().begin(), panels().end(), [](const auto& panel) { return !panel.expand; });
    if (largest != 0 && any_visits) prepared_for_ = std::min(prepared_for_, std::bit_ceil(largest + 1) - 1);
    const SortedOperands& operands = pipeline_.operands();
    const bool is_copied = m_ > 1 && (operands.in_file_order || operands.side != m_);
    b_transposed_ = {memory(), is_copied ? operands.num_b() * block_elements() : 0, "elements"};
    largest_ = {memory(), 1, "largest element"};
  }

  void multiply(const kernels::ChainValues& values) override {
    const auto* const a = static_cast<const std::uint16_t*>(values.a);
    const auto* const b = static_cast<const std::uint16_t*>(values.b);
    auto* const c = static_cast<std::uint32_t*>(values.c);
    if (pairs_ != nullptr) return pairs_->multiply(a, b, c);
    if (num_blocks_ == 0) return;
    take_values(a, b);
    if (!asks_largest()) return multiply_if(0, kMaxElement, c);
    multiply_if(0, prepared_for_, c);  // of the two, the device runs one
    multiply_if(prepared_for_ + 1, kMaxElement, c);
  }

 private:
  static constexpr std::uint32_t kMaxElement = std::numeric_limits<std::uint16_t>::max();

  [[nodiscard]] const std::vector<plan::Panel>& panels() const { return pipeline_.execution().panels; }
  [[nodiscard]] std::uint64_t block_elements() const { return std::uint64_t{m_} * m_; }
  /// Whether the device looks for the largest element, to do what is right for it.
  [[nodiscard]] bool asks_largest() const { return prepared_for_ < kMaxElement; }

  /// Every value counts as the largest there is, no block as zero, no sum of products as zero.
  DeviceBuffer<std::uint16_t> set_to_ones(SortedOperands& parsed) {
    const std::uint64_t most_blocks = std::max(parsed.a.keys.size(), parsed.b.keys.size());
    DeviceBuffer<std::uint16_t> ones(memory(), most_blocks * block_elements(), "elements");
    check(cudaMemsetAsync(ones.data(), 1, ones.size() * sizeof(std::uint16_t), stream_.get()), "set elements");
    for (SortedRows* matrix : {&parsed.a, &parsed.b}) {
      matrix->values = DeviceBuffer<std::uint16_t>::borrow(ones.data(), matrix->keys.size() * block_elements());
      matrix->max_element = kMaxElement;
      matrix->has_zeros = false;
    }
    return ones;
  }

  /// Multiplies blocks of ones. Errors: OutOfMemory.
  void find_pattern() {
    ArrayCollector collector(arrays(), memory(), pipeline_.events());
    num_blocks_ = pipeline_.run_panels(collector).num_blocks;
    arrays().out->values.reset();
    pattern_ = collector.take_pattern();
  }

  /// Keeps pairs instead of all else; returns false if there is no room for them, or other kernels are faster.
  bool keep_pairs() {
    const bool is_automatic =
        plan::row_of(pipeline_.execution().kernel).listing == plan::Listing::by_density;  // no other was asked for
    const double num_pairs = pipeline_.counts().num_pairs;
    if (num_blocks_ == 0 || num_blocks_ > kMostNumbered || num_pairs > kMostNumbered) return false;
    try {
      if (m_ <= kernels::kMaxSmallSide && is_automatic) {
        pairs_ = std::make_unique<PlacedPairs>(pipeline_.operands(), pattern_.heads.data(),
                                               static_cast<std::uint32_t>(num_blocks_), memory());
      } else {
        pairs_ = list_pairs();
      }
    } catch (const OutOfMemory&) {  // what there is will do
    }
    if (pairs_ == nullptr) return false;
    pipeline_.drop_operands();
    pattern_ = {};
    return true;
  }

  /// Null if blocks have another side, or a row has many pairs.
  std::unique_ptr<KeptPairs> list_pairs() {
    const SortedOperands& operands = pipeline_.operands();
    if (m_ != kernels::kPlannedListSide) return nullptr;
    kernels::PanelPairs all{.num_rows = operands.a.index.num_rows,
                            .column_bits = static_cast<unsigned>(std::bit_width(operands.num_c_columns()))};
    std::uint64_t max_row_pairs = 0;
    for (const plan::Panel& panel : panels()) {
      if (!panel.expand || panel.max_row_pairs > kernels::kShortRowPairs) return nullptr;
      all.num_pairs += panel.num_pairs;
      max_row_pairs = std::max(max_row_pairs, panel.max_row_pairs);
    }
    return std::make_unique<ListedPairs>(operands, all, max_row_pairs, static_cast<std::uint32_t>(num_blocks_),
                                         memory());
  }

  /// Multiplies as it is right for operands whose largest element lies between these; nothing happens for others. The
  /// heads of records are those of the pattern.
  void multiply_if(std::uint32_t least, std::uint32_t most, std::uint32_t* c) {
    pipeline_.operands().max_element = most;
    for (std::size_t x = 0; x < panels().size(); ++x) {
      std::uint32_t* const num_so_far = pattern_.num_so_far.data() + x;
      PanelTarget target{.out = {.to = kernels::records_in_arrays(pattern_.heads.data(), c, m_),
                                 .num_before = num_so_far,
                                 .num_blocks = num_so_far + 1,
                                 .largest = asks_largest() ? largest_.data() : nullptr,
                                 .least_largest = least,
                                 .most_largest = most},
                         .is_known = true};
      pipeline_.multiplier().multiply(panels()[x], target);
    }
  }

  /// The caller's values as the kernel reads them, and their largest one if that is to decide.
  void take_values(const std::uint16_t* a, const std::uint16_t* b) {
    SortedOperands& operands = pipeline_.operands();
    const std::uint64_t num_a = operands.num_a();
    std::uint32_t* const largest = asks_largest() ? largest_.data() : nullptr;
    if (largest != nullptr) {
      check(cudaMemsetAsync(largest, 0, sizeof *largest, stream_.get()), "clear");
      kernels::launch_max_element(a, num_a * block_elements(), largest, stream_.get());
    }
    using Values = DeviceBuffer<std::uint16_t>;
    Values from_a = Values::borrow(const_cast<std::uint16_t*>(a), num_a * block_elements());  // never written
    if (operands.in_file_order) {  // blocks are found through their numbers
      operands.b.values = taken_b(b, nullptr, b_transposed_, largest);
      operands.a.values = std::move(from_a);
      return;
    }
    gather(from_a, operands.a.numbers, operands.shape(), operands.a.values, stream_);
    if (m_ > 1 && operands.side == m_) {
      taken_b(b, operands.b.numbers.data(), operands.b.values, largest);
      return;
    }
    gather(taken_b(b, nullptr, b_transposed_, largest), operands.b.numbers, operands.shape(), operands.b.values,
           stream_);
  }

  /// Transposes the caller's blocks of B into `to`, in the order of numbers; borrows them as they are if m = 1.
  DeviceBuffer<std::uint16_t> taken_b(const std::uint16_t* b, const std::uint32_t* numbers,
                                      const DeviceBuffer<std::uint16_t>& to, std::uint32_t* largest) {
    const std::uint64_t num_blocks = pipeline_.operands().num_b();
    if (m_ > 1) {
      kernels::launch_transpose_blocks({.values = b, .count = num_blocks}, numbers, m_, to.data(), largest,
                                       stream_.get());
      return DeviceBuffer<std::uint16_t>::borrow(to.data(), to.size());
    }
    if (largest != nullptr) kernels::launch_max_element(b, num_blocks, largest, stream_.get());
    return DeviceBuffer<std::uint16_t>::borrow(const_cast<std::uint16_t*>(b), num_blocks);  // never written
  }

  std::uint32_t m_;
  const Stream& stream_;
  std::uint64_t num_blocks_ = 0;
  ArrayCollector::Pattern pattern_;
  DeviceBuffer<std::uint16_t> b_transposed_;  // [nnzb of B, m, m]
  DeviceBuffer<std::uint32_t> largest_;       // [1], element of both operands
  std::uint32_t prepared_for_ = kMaxElement;  // largest elements up to this; others take longer. Pairs: for all alike
  std::unique_ptr<KeptPairs> pairs_;          // instead of operands, pattern and multiplier
};

}  // namespace

std::unique_ptr<PlannedProduct> plan_product(const Source& a, const Source& b, const plan::Choice& expected,
                                             const DeviceRun& run) {
  return make_plan<KeptProduct>(run, a, b, expected);
}

}  // namespace spmm::cuda
