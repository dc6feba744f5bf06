// Operands of blocks of side 1: their records are never in memory as a whole.
#pragma once

#include "base/run/run.hpp"
#include "base/run/stage_progress.hpp"
#include "cpu/operands/operand.hpp"
#include "spmm/stream.hpp"

namespace spmm::cpu {

/// Reads, checks and sorts the records of a source. Values: m = 1 and plan::short_key_bits() fit.
/// Memory: plan::build_bytes(). Errors: as build_operand().
PackedOperand build_element_operand(const Source& source, Progress& progress, const Run& run);

/// The same of a source that is_sorted(), whatever its indices. Memory: plan::sorted_build_bytes(), and a chunk for
/// each thread. Errors: FormatError (not in order), Interrupted, what the source throws.
PackedOperand build_sorted_elements(const Source& source, Progress& progress, const Run& run);

}  // namespace spmm::cpu
