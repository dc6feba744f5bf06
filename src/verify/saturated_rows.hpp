// Rows of C with saturated elements: which of them are wrong.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/run.hpp"
#include "verify/proof_state.hpp"

namespace spmm {

/// The blocks with saturated elements of one block row.
struct SaturatedRow {
  std::uint32_t row = 0;
  std::uint32_t slot = 0;
  std::span<const SaturatedBlock> blocks{};  ///< by column
  bool by_sums = false;                      ///< more of them in an element row than the equations solve for
};

/// Everything that was found, by block rows; empties state.saturated.
SaturatedBlocks gather_saturated(ProofState& state, const Run& run);
std::vector<SaturatedRow> saturated_rows(const ProofState& state, const SaturatedBlocks& all);

/// Block rows that are wrong are appended; by_sums is set where exact sums decided.
/// Memory: settings.memory_bytes for operands. Errors: OutOfMemory, Interrupted, what the sources throw.
void check_saturated(ProofState& state, const SaturatedBlocks& all, std::vector<SaturatedRow>& rows,
                     std::vector<std::uint32_t>& wrong, const Run& run);

}  // namespace spmm
