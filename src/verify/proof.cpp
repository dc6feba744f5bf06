// What a proof holds in memory, its equations, and its result.
#include "verify/proof.hpp"

#include <algorithm>
#include <bit>
#include <span>
#include <vector>

#include "base/run/cancellable.hpp"
#include "verify/row_differences.hpp"
#include "verify/rows/saturated_rows.hpp"

namespace spmm {

Proof::Proof(const Source& a, const Source& b, const ProofSettings& settings, const Run& run)
    : state_(a, b, settings, run) {}

std::uint64_t Proof::resident_bytes(const MatrixHeader& a, const MatrixHeader& b, std::uint32_t columns,
                                    std::uint64_t limit_bytes) {
  const std::uint64_t of_column = RowSlots::most_slots(a) * a.m * sizeof(std::uint64_t);
  const std::uint64_t rows = RowSlots::most_slots(a) + RowSlots::most_bytes(a) + RowSlots::most_bytes(b);
  const std::uint64_t vectors = columns == 1 ? 1 : columns + 1;  // Y and C X apart
  return vectors * of_column + rows + ProofState::table_bytes(a.n, columns, limit_bytes);
}

std::uint64_t Proof::passing_bytes(const MatrixHeader& a, const MatrixHeader& b, std::uint64_t memory_bytes,
                                   unsigned num_threads) {
  const std::uint64_t record = input_record_bytes(a.m);
  const std::uint64_t reading = num_threads * records_of_read(record) * record;
  const std::uint64_t bx = std::min(RowSlots::most_slots(b) * b.m * sizeof(std::uint64_t), memory_bytes / 2);
  const std::uint64_t row_sums = RowSlots::most_slots(a) * a.m * sizeof(std::uint32_t);
  const std::uint64_t operands = (std::uint64_t{a.num_blocks} + b.num_blocks) * record;
  return std::max(bx + row_sums, std::min(operands, memory_bytes)) + std::min(reading, operands);
}

namespace {

/// Rows without saturated elements whose first equation does not hold. Shapes: saturated by row.
std::vector<std::uint32_t> failing_rows(const ProofState& state, std::span<const SaturatedRow> saturated,
                                        const Run& run) {
  std::vector<std::uint32_t> failing;
  auto next = saturated.begin();
  for_ranges(run, state.a_rows.size(), [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t slot = begin; slot < end; ++slot) {
      while (next != saturated.end() && next->slot < slot) ++next;
      if (next != saturated.end() && next->slot == slot) continue;
      for (std::uint32_t r = 0; r < state.m; ++r) {
        const std::uint64_t y = state.y0.is_empty() ? 0 : state.y0.at(slot)[r];
        if (add61(state.residual[0].at(slot)[r], y) == 0) continue;
        failing.push_back(state.a_rows.row(slot));
        break;
      }
    }
  });
  return failing;
}

std::uint64_t num_saturated(const ProofState& state, const SaturatedBlocks& all) {
  std::uint64_t count = 0;
  for (const SaturatedBlock& block : all.blocks) {
    count += block.mask == SaturatedBlock::kEverywhere ? state.elements() : 0;
  }
  for (const std::uint64_t word : all.masks) count += static_cast<std::uint64_t>(std::popcount(word));
  return count;
}

}  // namespace

ProofResult Proof::finish(const FindRow& find_row, const Run& run) {
  const SaturatedBlocks all = gather_saturated(state_, run);
  std::vector<SaturatedRow> rows = saturated_rows(state_, all);
  std::vector<std::uint32_t> wrong = failing_rows(state_, rows, run);
  const SaturationStats stats = check_saturated(state_, all, rows, wrong, run);
  wrong.insert(wrong.end(), state_.stray_rows.begin(), state_.stray_rows.end());
  std::sort(wrong.begin(), wrong.end());
  wrong.erase(std::unique(wrong.begin(), wrong.end()), wrong.end());
  ProofResult result{.num_rows = state_.a_rows.size() * state_.m,
                     .num_columns = state_.num_columns,
                     .num_saturated = num_saturated(state_, all),
                     .num_exact = stats.num_exact,
                     .num_bounded = stats.num_bounded,
                     .bounded_by_device = stats.by_device,
                     .bounds_s = stats.bounds_s,
                     .num_wrong = wrong.size()};
  if (!wrong.empty()) result.differences = describe_differences(state_, all, wrong, find_row, run);
  return result;
}

}  // namespace spmm
