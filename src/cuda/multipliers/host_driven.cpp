// The host merges the lists of A and B, and launches a kernel for each C block.
#include "cuda/multipliers/host_driven.hpp"

#include <algorithm>

#include "kernels/baselines/launch.hpp"

namespace spmm::cuda {
namespace {

constexpr std::uint64_t kPairsInFlight = 1u << 16;

}  // namespace

HostDriven::HostDriven(const DeviceOperands& operands, const Stream& stream)
    : a_(fetch_rows(operands.a, stream)),
      b_(fetch_rows(operands.b, stream)),
      pairs_(std::max({kPairsInFlight, std::uint64_t{a_.columns.size()}, std::uint64_t{1}})) {}

HostDriven::HostRows HostDriven::fetch_rows(const CompressedRows& rows, const Stream& stream) {
  HostRows out{.offsets = std::vector<std::uint32_t>(rows.num_rows + std::size_t{1}),
               .columns = std::vector<std::uint32_t>(rows.columns.size())};
  if (rows.num_rows == 0) return out;
  copy_async(out.offsets.data(), rows.offsets.data(), out.offsets.size(), stream);
  copy_async(out.columns.data(), rows.columns.data(), out.columns.size(), stream);
  stream.synchronize();
  return out;
}

void HostDriven::merge(const kernels::CBlock& c_block) {
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

void HostDriven::multiply(const DeviceOperands& operands, const kernels::CBlocksView& c_blocks,
                          const kernels::CBlockResults& results, const Stream& stream, const Run& run) {
  std::vector<std::uint64_t> keys;
  kernels::CBlocksView host_c_blocks = c_blocks;
  if (c_blocks.keys != nullptr) {
    keys.resize(c_blocks.num_c_blocks);
    copy_async(keys.data(), c_blocks.keys, c_blocks.num_c_blocks, stream);
    stream.synchronize();
    host_c_blocks.keys = keys.data();
  }
  check(cudaMemsetAsync(results.non_zero, 0, c_blocks.num_c_blocks, stream.get()), "clear flags");
  std::uint64_t used = 0;
  for (std::uint64_t x = 0; x < c_blocks.num_c_blocks; ++x) {
    if (x % 1024 == 0) run.check_cancelled();
    merge(kernels::c_block_at(host_c_blocks, x));
    if (matches_.empty()) continue;
    if (used + matches_.size() > pairs_.size()) {
      stream.synchronize();  // the device has read every list
      used = 0;
    }
    std::copy(matches_.begin(), matches_.end(), pairs_.data() + used);
    const kernels::HostPairs list{
        .pairs = pairs_.data() + used, .num_pairs = static_cast<std::uint32_t>(matches_.size()), .c_block = x};
    kernels::launch_mul_host_pairs(operands.a_view(), operands.b_view(), list, operands.m, results, stream.get());
    used += matches_.size();
  }
  stream.synchronize();
}

}  // namespace spmm::cuda
