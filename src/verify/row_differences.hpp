// An alarm is confirmed: block rows of C that failed are computed exactly, and what differs is described.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/run/run.hpp"
#include "verify/proof.hpp"
#include "verify/rows/state.hpp"

namespace spmm {

/// What differs in the first few of these block rows, one clause after the other. Shapes: rows ascending, not empty.
/// Memory: settings.memory_bytes for operands, the blocks of a few rows. Errors: std::logic_error where none of them
/// differs; OutOfMemory, Interrupted, what the sources and find_row throw.
std::string describe_differences(const ProofState& state, const SaturatedBlocks& saturated,
                                 std::span<const std::uint32_t> rows, const FindRow& find_row, const Run& run);

}  // namespace spmm
