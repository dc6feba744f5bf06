#include "plan/planner.hpp"

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "kernels/tuning.hpp"
#include "plan/kernel_choice.hpp"
#include "spmm/error.hpp"

namespace spmm::plan {
namespace {

constexpr std::uint64_t kMaxCpuBufferBytes = 8u << 20;  // stays in the last-level cache between multiply and write

/// Expected pairs and result blocks if the blocks of A and B were spread uniformly.
void expect_uniform(const MatrixHeader& a, const MatrixHeader& b, Plan& plan) {
  const double nb = a.blocks_per_side();
  if (nb == 0) return;
  plan.expected_pairs = double(a.num_blocks) * double(b.num_blocks) / nb;
  // A result block exists unless all nb inner positions miss.
  const double hit = (double(a.num_blocks) / (nb * nb)) * (double(b.num_blocks) / (nb * nb));
  plan.expected_output_blocks = hit >= 1 ? nb * nb : nb * nb * -std::expm1(nb * std::log1p(-hit));
}

[[noreturn]] void refuse(const char* what, std::uint64_t need, std::uint64_t have) {
  throw OutOfMemory(what,
                    text("even the smallest panel needs ", human_bytes(need), " (", need, " bytes) and the limit is ",
                         human_bytes(have), " (", have, " bytes)"),
                    "raise --memory-limit, or run on a machine with more memory");
}

/// Device bytes of the operands: what stays while panels are computed, and the peak of the build before that.
struct OperandBytes {
  std::uint64_t resident = 0;
  std::uint64_t build_peak = 0;
};

OperandBytes operand_device_bytes(const MatrixHeader& a, const MatrixHeader& b) {
  const std::uint64_t values_a = std::uint64_t{2} * a.m * a.m * a.num_blocks;
  const std::uint64_t values_b = std::uint64_t{2} * b.m * b.m * b.num_blocks;
  const std::uint64_t lines_a = std::min(a.num_blocks, a.blocks_per_side());
  const std::uint64_t lines_b = std::min(b.num_blocks, b.blocks_per_side());
  constexpr std::uint64_t kLine = 4 + 4;        // block row, offset
  constexpr std::uint64_t kInner = 4;           // block column
  constexpr std::uint64_t kCounts = 4 + 8 + 8;  // per block of A: row index in B, pairs before it; pairs before its row
  constexpr std::uint64_t kKey = 8;
  constexpr std::uint64_t kSort = 8 + 4 + 4;  // the other key buffer, record numbers twice
  constexpr std::uint64_t kWork = 64u << 20;  // upload ring on the device, library work space
  const std::uint64_t index = lines_a * kLine + a.num_blocks * (kInner + kCounts)  //
                              + 2 * (lines_b * kLine + b.num_blocks * kInner);     // B in both orders
  const std::uint64_t keys = (std::uint64_t{a.num_blocks} + b.num_blocks) * kKey;
  const std::uint64_t sort = std::max(a.num_blocks, b.num_blocks) * kSort;
  return {.resident = values_a + values_b + index + kWork,
          .build_peak = values_a + values_b + std::max(values_a, values_b) + index + keys + sort + kWork};
}

}  // namespace

std::uint64_t c_block_bytes(std::uint32_t m) {
  return std::uint64_t{4} * m * m  // values
         + 8 + 1 + 8               // coordinates, flag, position
         + 8;                      // share of library work space
}

Plan plan_cpu(const MatrixHeader& a, const MatrixHeader& b, const std::string& kernel, const std::string& reason,
              const Limits& limits, const NeedBytes& need_bytes) {
  Plan plan{.backend = Backend::cpu,
            .kernel = kernel,
            .reason = reason,
            .num_threads = std::max(1u, limits.num_threads),
            .host_limit_bytes = limits.host_bytes};
  expect_uniform(a, b, plan);
  const std::uint64_t record = output_record_bytes(std::max(1u, a.m));
  plan.panel_bytes = std::max(record, kMaxCpuBufferBytes);
  plan.num_buffers = std::uint64_t{plan.num_threads} * 2 + 2;
  plan.host_need_bytes = need_bytes(plan);
  while (plan.host_need_bytes > plan.host_limit_bytes) {
    if (plan.panel_bytes > record) {
      plan.panel_bytes = std::max(record, plan.panel_bytes / 2);
    } else if (plan.num_buffers > plan.num_threads + 1) {
      plan.num_buffers = plan.num_threads + 1;
    } else if (plan.num_threads > 1) {
      plan.num_threads /= 2;
      plan.num_buffers = plan.num_threads + 1;
    } else {
      refuse("host memory", plan.host_need_bytes, plan.host_limit_bytes);
    }
    plan.host_need_bytes = need_bytes(plan);
  }
  plan.expected_panels = static_cast<std::uint64_t>(
      std::ceil(plan.expected_output_blocks * static_cast<double>(record) / static_cast<double>(plan.panel_bytes)));
  return plan;
}

Plan plan_cuda(const MatrixHeader& a, const MatrixHeader& b, const std::string& kernel, const std::string& reason,
               const Limits& limits) {
  Plan plan{.backend = Backend::cuda,
            .kernel = kernel,
            .reason = reason,
            .num_threads = std::max(1u, limits.num_threads),
            .host_limit_bytes = limits.host_bytes,
            .device_limit_bytes = limits.device_bytes};
  expect_uniform(a, b, plan);
  const std::uint64_t record = output_record_bytes(a.m);
  const OperandBytes operands = operand_device_bytes(a, b);
  // Packed records twice (one copy leaves the device while the next panel computes).
  const std::uint64_t per_c_block = 2 * record + c_block_bytes(a.m) + kEscPairBytes;
  const std::uint64_t smallest = std::max(operands.build_peak, operands.resident + per_c_block);
  if (smallest > plan.device_limit_bytes) refuse("device memory", smallest, plan.device_limit_bytes);
  const std::uint64_t left = plan.device_limit_bytes - operands.resident;
  const std::uint64_t useful = std::min<std::uint64_t>(kernels::kPanelBytes / record + 1,
                                                       std::uint64_t{a.blocks_per_side()} * a.blocks_per_side());
  const std::uint64_t num_c_blocks =
      std::clamp<std::uint64_t>(left / per_c_block, 1, std::max<std::uint64_t>(1, useful));
  plan.panel_bytes = num_c_blocks * record;
  plan.device_need_bytes = std::max(operands.build_peak, operands.resident + num_c_blocks * per_c_block);
  const auto host_need = [](std::uint64_t num_buffers) { return num_buffers * kernels::kRingSlotBytes; };
  plan.num_buffers = kernels::kNumRingSlots;
  while (plan.num_buffers > 1 && host_need(plan.num_buffers) > plan.host_limit_bytes) --plan.num_buffers;
  plan.host_need_bytes = host_need(plan.num_buffers);
  if (plan.host_need_bytes > plan.host_limit_bytes) {
    refuse("host memory", plan.host_need_bytes, plan.host_limit_bytes);
  }
  plan.expected_panels = static_cast<std::uint64_t>(
      std::ceil(plan.expected_output_blocks * static_cast<double>(record) / static_cast<double>(plan.panel_bytes)));
  if (kernel == "auto") {
    plan.expected_kernels =
        candidates_text(rank_kernels({.m = a.m,
                                      .nb = a.blocks_per_side(),
                                      .num_blocks = std::uint64_t{a.num_blocks} + b.num_blocks,
                                      .num_pairs = static_cast<std::uint64_t>(plan.expected_pairs),
                                      .num_rows = std::min(a.num_blocks, a.blocks_per_side()),
                                      .num_c_blocks = static_cast<std::uint64_t>(plan.expected_output_blocks),
                                      .max_element = 65'535,
                                      .has_dense_tensor = limits.has_dense_tensor,
                                      .free_bytes = plan.device_limit_bytes - operands.resident,
                                      .max_c_blocks = num_c_blocks}));
  }
  return plan;
}

}  // namespace spmm::plan
