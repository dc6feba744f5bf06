// Products whose operands do not fit the memory limit: range by range, from a scratch file.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "base/records/inputs.hpp"
#include "base/run/output.hpp"
#include "base/run/run.hpp"
#include "plan/execution.hpp"

namespace spmm {

/// Runs one product at once, of a range within execution.range_limits, into an output; the exact
/// decision replaces `execution`.
using MultiplyAtOnce = std::function<ProductStats(const Inputs& inputs, Output& output, plan::Execution& execution)>;

/// Multiplies range by range; records reach the output in order. Both operands are sorted by row into a scratch file in
/// one of the scratch folders, best first. A range is as many rows of A as fit with the rows of B that they meet. If
/// they meet so much of B that larger ranges with slabs of block columns take less time, or a single row does not fit,
/// B is sorted by column, too: the products of a range with all slabs are merged row by row in a second scratch file.
/// Before any row is computed, the longest row that does not fit with what it meets is tried with the longest column.
/// Values: execution = a decision out of core, which is set to what ran last, with the memory of the whole. Memory:
/// execution.host_limit_bytes. Errors: FormatError; OutOfMemory (that row does not fit with that column; no scratch
/// file); IoError; what `multiply_at_once` throws.
ProductStats multiply_out_of_core(const Inputs& inputs, Output& output, const MultiplyAtOnce& multiply_at_once,
                                  const Run& run, std::span<const std::string> scratch_folders,
                                  plan::Execution& execution);

/// The memory limit from which on the longest block row of A fits with the longest block column of B; the present one
/// if they do: then no row is refused. Reads both operands once. Values: execution = a decision out of core. Memory: a
/// quarter of its limit. Errors: FormatError; OutOfMemory (that row fits with no block of B); Interrupted.
std::uint64_t safe_limit_bytes(const Inputs& inputs, const plan::Execution& execution, const Run& run);

}  // namespace spmm
