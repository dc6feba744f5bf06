// The baselines: C blocks visited, or listed by expansion, and a kernel, or the host, that merges the lists of each.
#include <algorithm>
#include <memory>
#include <vector>

#include "base/text.hpp"
#include "cuda/multipliers/multiplier.hpp"
#include "kernels/baselines/launch.hpp"
#include "kernels/blocks/launch.hpp"
#include "kernels/tuning.hpp"

namespace spmm::cuda {
namespace {

/// two-pointer and binary-search.
class BaselineMultiplier : public CBlockFiller {
 public:
  using Launch = decltype(&kernels::launch_mul_two_pointer);

  BaselineMultiplier(const MultiplierContext& context, Launch launch)
      : CBlockFiller(context), lists_(context, [](const plan::Panel&) { return false; }), launch_(launch) {}

  kernels::CBlocksView fill(const plan::Panel& panel, const kernels::CBlockResults& results) override {
    kernels::CBlocksView c_blocks = c_.all_c_blocks(panel);
    if (panel.expand) {
      c_.timed(Stage::count, [&] { lists_.list(panel, false, c_blocks); });  // their pairs are not used
    }
    c_.timed(Stage::multiply, [&] { multiply_c_blocks(c_blocks, results); });
    return c_blocks;
  }

 protected:
  virtual void multiply_c_blocks(const kernels::CBlocksView& c_blocks, const kernels::CBlockResults& results) {
    launch_(c_.operands.a_view(), c_.operands.b_view(), c_blocks, c_.operands.m, results, c_.stream().get());
  }

 private:
  PairLists lists_;
  Launch launch_;
};

/// host-driven: the host walks the lists of every C block and launches one result block at a time.
class HostDrivenMultiplier : public BaselineMultiplier {
 public:
  explicit HostDrivenMultiplier(const MultiplierContext& context)
      : BaselineMultiplier(context, nullptr),
        a_(fetch_rows(c_.operands.a.index)),
        b_(fetch_rows(c_.operands.b.index)) {}

 protected:
  /// Waits for the stream. Errors: Interrupted, UsageError (a C block with too many pairs).
  void multiply_c_blocks(const kernels::CBlocksView& c_blocks, const kernels::CBlockResults& results) override {
    std::vector<std::uint64_t> keys;
    kernels::CBlocksView on_host = c_blocks;
    if (c_blocks.keys != nullptr) {
      keys = fetch_all(c_blocks.keys, c_blocks.num_c_blocks, c_.stream());
      on_host.keys = keys.data();
    }
    check(cudaMemsetAsync(results.non_zero, 0, c_blocks.num_c_blocks, c_.stream().get()), "clear flags");
    auto* const pairs = reinterpret_cast<kernels::BlockPair*>(slot_.data());
    std::uint64_t used = 0;
    for (std::uint64_t x = 0; x < c_blocks.num_c_blocks; ++x) {
      if (x % 1024 == 0) c_.run.check_cancelled();
      merge(kernels::c_block_at(on_host, x));
      if (matches_.empty()) continue;
      if (matches_.size() > kMostPairs) {
        throw UsageError("kernel host-driven", text("takes C blocks of up to ", kMostPairs, " pairs"),
                         "name another kernel");
      }
      if (used + matches_.size() > kMostPairs) {
        c_.stream().synchronize();  // the device has read every list
        used = 0;
      }
      std::copy(matches_.begin(), matches_.end(), pairs + used);
      const kernels::HostPairs list{
          .pairs = pairs + used, .num_pairs = static_cast<std::uint32_t>(matches_.size()), .c_block = x};
      kernels::launch_mul_host_pairs(c_.operands.a_view(), c_.operands.b_view(), list, c_.operands.m, results,
                                     c_.stream().get());
      used += matches_.size();
    }
    c_.stream().synchronize();
  }

 private:
  static constexpr std::uint64_t kMostPairs = kernels::kRingSlotBytes / sizeof(kernels::BlockPair);

  struct HostRows {
    std::vector<std::uint32_t> offsets;
    std::vector<std::uint32_t> columns;
  };

  [[nodiscard]] HostRows fetch_rows(const CompressedRows& rows) const {
    return {.offsets = fetch_all(rows.offsets.data(), rows.num_rows + std::uint64_t{1}, c_.stream()),
            .columns = fetch_all(rows.columns.data(), rows.columns.size(), c_.stream())};
  }

  /// Two pointers: the pairs of a C block.
  void merge(const kernels::CBlock& c_block) {
    matches_.clear();
    std::uint32_t pa = a_.offsets[c_block.row];
    std::uint32_t pb = b_.offsets[c_block.column];
    while (pa < a_.offsets[c_block.row + 1] && pb < b_.offsets[c_block.column + 1]) {
      const std::uint32_t in_a = a_.columns[pa];
      const std::uint32_t in_b = b_.columns[pb];
      if (in_a == in_b) matches_.push_back({.a = pa, .b = pb});
      pa += in_a <= in_b ? 1 : 0;
      pb += in_b <= in_a ? 1 : 0;
    }
  }

  HostRows a_;
  HostRows b_;
  std::vector<kernels::BlockPair> matches_;       // of the current C block
  PinnedSlot slot_{c_.memory.context().slots()};  // pairs of C blocks in flight, which the device reads in place
};

}  // namespace

std::unique_ptr<Multiplier> make_two_pointer(const MultiplierContext& context) {
  return std::make_unique<BaselineMultiplier>(context, kernels::launch_mul_two_pointer);
}

std::unique_ptr<Multiplier> make_binary_search(const MultiplierContext& context) {
  return std::make_unique<BaselineMultiplier>(context, kernels::launch_mul_binary_search);
}

std::unique_ptr<Multiplier> make_host_driven(const MultiplierContext& context) {
  return std::make_unique<HostDrivenMultiplier>(context);
}

}  // namespace spmm::cuda
