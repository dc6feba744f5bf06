// The baselines: C blocks visited, or listed by expansion, and a kernel, or the host, that merges the lists of each.
#include <algorithm>
#include <array>
#include <vector>

#include "cuda/multipliers/multiplier.hpp"
#include "kernels/baselines/launch.hpp"
#include "kernels/blocks/launch.hpp"

namespace spmm::cuda {
namespace {

/// C blocks listed by expansion; their pairs are not used.
class CBlockList {
 public:
  CBlockList(DeviceMemory& memory, std::uint64_t max_pairs)
      : keys_{DeviceBuffer<std::uint64_t>(memory, max_pairs, "pair keys"),
              DeviceBuffer<std::uint64_t>(memory, max_pairs, "pair keys")},
        pairs_{DeviceBuffer<kernels::BlockPair>(memory, max_pairs, "pairs"),
               DeviceBuffer<kernels::BlockPair>(memory, max_pairs, "pairs")},
        c_blocks_(memory, max_pairs, "C block keys"),
        offsets_(memory, max_pairs + 1, "pair offsets of C blocks"),
        num_c_blocks_(memory, 1, "count"),
        host_num_c_blocks_(memory.context()),
        work_(memory, max_pairs == 0 ? 0 : kernels::list_pairs_workspace_bytes(max_pairs), "listing work space") {}

  /// Replaces all C blocks of the panel by those with pairs; waits for the stream.
  void list(const plan::Panel& panel, const DeviceOperands& operands, const Stream& stream,
            kernels::CBlocksView& c_blocks) {
    kernels::PairListBuffers buffers{.keys = {{keys_[0].data(), keys_[1].data()}},
                                     .pairs = {{pairs_[0].data(), pairs_[1].data()}},
                                     .c_block_keys = c_blocks_.data(),
                                     .offsets = offsets_.data(),
                                     .num_c_blocks = num_c_blocks_.data(),
                                     .host_num_c_blocks = host_num_c_blocks_.data()};
    kernels::launch_list_pairs(operands.expand_view(), panel_pairs(panel, c_blocks.column_bits), buffers,
                               {.data = work_.data(), .bytes = work_.size()}, stream.get());
    stream.synchronize();
    c_blocks.num_c_blocks = host_num_c_blocks_.value();
    c_blocks.keys = c_blocks_.data();
  }

 private:
  std::array<DeviceBuffer<std::uint64_t>, 2> keys_;        // [max_pairs] each
  std::array<DeviceBuffer<kernels::BlockPair>, 2> pairs_;  // [max_pairs] each
  DeviceBuffer<std::uint64_t> c_blocks_;                   // [max_pairs]
  DeviceBuffer<std::uint32_t> offsets_;                    // [max_pairs + 1]
  DeviceBuffer<std::uint32_t> num_c_blocks_;
  PinnedWord host_num_c_blocks_;
  DeviceBuffer<std::byte> work_;
};

/// two-pointer and binary-search.
class BaselineMultiplier : public CBlockFiller {
 public:
  using Launch = decltype(&kernels::launch_mul_two_pointer);

  BaselineMultiplier(const MultiplierContext& context, Launch launch)
      : CBlockFiller(context), list_(context.memory, max_listed_pairs(context.execution.panels)), launch_(launch) {}

  kernels::CBlocksView fill(const plan::Panel& panel, const kernels::CBlockResults& results) override {
    kernels::CBlocksView c_blocks = all_c_blocks(panel, c_.operands.num_c_columns());
    if (panel.expand) {
      c_.events.timed(Stage::count, c_.stream, [&] { list_.list(panel, c_.operands, c_.stream, c_blocks); });
    }
    c_.events.timed(Stage::multiply, c_.stream, [&] { multiply_c_blocks(c_blocks, results); });
    return c_blocks;
  }

 protected:
  virtual void multiply_c_blocks(const kernels::CBlocksView& c_blocks, const kernels::CBlockResults& results) {
    launch_(c_.operands.a_view(), c_.operands.b_view(), c_blocks, c_.operands.m, results, c_.stream.get());
  }

 private:
  CBlockList list_;
  Launch launch_;
};

/// host-driven: the host walks the lists of every C block and launches one result block at a time.
class HostDrivenMultiplier : public BaselineMultiplier {
 public:
  explicit HostDrivenMultiplier(const MultiplierContext& context)
      : BaselineMultiplier(context, nullptr),
        a_(fetch_rows(c_.operands.a)),
        b_(fetch_rows(c_.operands.b)),
        pairs_(std::max(kPairsInFlight, std::uint64_t{a_.columns.size()})) {}

 protected:
  /// Waits for the stream. Errors: Interrupted.
  void multiply_c_blocks(const kernels::CBlocksView& c_blocks, const kernels::CBlockResults& results) override {
    std::vector<std::uint64_t> keys(c_blocks.keys == nullptr ? 0 : c_blocks.num_c_blocks);
    kernels::CBlocksView on_host = c_blocks;
    if (c_blocks.keys != nullptr) {
      copy_async(keys.data(), c_blocks.keys, keys.size(), c_.stream);
      c_.stream.synchronize();
      on_host.keys = keys.data();
    }
    check(cudaMemsetAsync(results.non_zero, 0, c_blocks.num_c_blocks, c_.stream.get()), "clear flags");
    std::uint64_t used = 0;
    for (std::uint64_t x = 0; x < c_blocks.num_c_blocks; ++x) {
      if (x % 1024 == 0) c_.run.check_cancelled();
      merge(kernels::c_block_at(on_host, x));
      if (matches_.empty()) continue;
      if (used + matches_.size() > pairs_.size()) {
        c_.stream.synchronize();  // the device has read every list
        used = 0;
      }
      std::copy(matches_.begin(), matches_.end(), pairs_.data() + used);
      const kernels::HostPairs list{
          .pairs = pairs_.data() + used, .num_pairs = static_cast<std::uint32_t>(matches_.size()), .c_block = x};
      kernels::launch_mul_host_pairs(c_.operands.a_view(), c_.operands.b_view(), list, c_.operands.m, results,
                                     c_.stream.get());
      used += matches_.size();
    }
    c_.stream.synchronize();
  }

 private:
  static constexpr std::uint64_t kPairsInFlight = 1u << 16;

  struct HostRows {
    std::vector<std::uint32_t> offsets;
    std::vector<std::uint32_t> columns;
  };

  [[nodiscard]] HostRows fetch_rows(const CompressedRows& rows) const {
    HostRows out{.offsets = std::vector<std::uint32_t>(rows.num_rows + std::size_t{1}),
                 .columns = std::vector<std::uint32_t>(rows.columns.size())};
    if (rows.num_rows == 0) return out;
    copy_async(out.offsets.data(), rows.offsets.data(), out.offsets.size(), c_.stream);
    copy_async(out.columns.data(), rows.columns.data(), out.columns.size(), c_.stream);
    c_.stream.synchronize();
    return out;
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
  std::vector<kernels::BlockPair> matches_;  // of the current C block
  PinnedBuffer<kernels::BlockPair> pairs_;   // of C blocks in flight, read by the device in place
};

}  // namespace

std::unique_ptr<Multiplier> make_baseline_multiplier(const MultiplierContext& context) {
  switch (context.execution.id) {
    case plan::KernelId::two_pointer:
      return std::make_unique<BaselineMultiplier>(context, kernels::launch_mul_two_pointer);
    case plan::KernelId::binary_search:
      return std::make_unique<BaselineMultiplier>(context, kernels::launch_mul_binary_search);
    default:
      return std::make_unique<HostDrivenMultiplier>(context);
  }
}

}  // namespace spmm::cuda
