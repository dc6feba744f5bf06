// Products whose operands do not fit the memory limit: range by range, from a scratch file.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "base/records/inputs.hpp"
#include "base/run/run.hpp"
#include "engine/product.hpp"
#include "plan/execution.hpp"
#include "spmm/stream.hpp"

namespace spmm {

/// Runs one product at once, of a range within execution.range_limits, into a sink, without finish(); the exact
/// decision replaces `execution`.
using MultiplyAtOnce = std::function<ProductStats(const Inputs& inputs, Sink& sink, plan::Execution& execution)>;

/// Multiplies range by range; records reach the sink in order. Both operands are sorted by row into a scratch file in
/// one of the scratch folders, best first. A range is as many rows of A as fit with the rows of B that they meet. If
/// they meet so much of B that larger ranges with slabs of block columns take less time, or a single row does not fit,
/// B is sorted by column, too: the products of a range with all slabs are merged row by row in a second scratch file.
/// Values: execution = a decision out of core, which is set to what ran last, with the memory of the whole. Memory:
/// execution.host_limit_bytes. Errors: FormatError; OutOfMemory (one row of A does not fit with one column of B; no
/// scratch file); IoError; what `multiply_at_once` throws.
ProductStats multiply_out_of_core(const Inputs& inputs, Output& sink, const MultiplyAtOnce& multiply_at_once,
                                  const Run& run, std::span<const std::string> scratch_folders,
                                  plan::Execution& execution);

}  // namespace spmm
