// Rows of C with saturated elements: which of them are wrong.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/run/run.hpp"
#include "verify/rows/state.hpp"

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

/// How rows with many saturated elements were decided.
struct SaturationStats {
  std::uint64_t num_exact = 0;    ///< block rows that sums or bounds decided, not the equations alone
  std::uint64_t num_bounded = 0;  ///< blocks of C that bounds of whole rows proved
  bool by_device = false;         ///< a device did that
  double bounds_s = 0;            ///< seconds that these bounds took
};

/// Block rows that are wrong are appended; by_sums is set where exact sums or bounds decided.
/// Memory: settings.memory_bytes for operands. Errors: OutOfMemory, Interrupted, what the sources throw.
SaturationStats check_saturated(ProofState& state, const SaturatedBlocks& all, std::vector<SaturatedRow>& rows,
                                std::vector<std::uint32_t>& wrong, const Run& run);

}  // namespace spmm
