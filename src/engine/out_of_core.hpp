// Products whose operands do not fit the memory limit: range by range, from a scratch file.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "base/records/inputs.hpp"
#include "base/run/output.hpp"
#include "base/run/run.hpp"
#include "plan/choice.hpp"

namespace spmm {

/// Runs one product at once, of a range within choice.limits, into an output; the exact
/// decision replaces `choice`, and a selection that of the run.
using MultiplyAtOnce =
    std::function<ProductStats(const Inputs& inputs, Output& output, plan::Choice& choice, const Selection& selection)>;

/// Multiplies range by range; records reach the output in order. Both operands are sorted by row into a scratch file in
/// one of the scratch folders, best first. A range is as many rows of A as fit with the rows of B that they meet. If a
/// single row does not fit, or larger ranges take less time with one slab of B after the other, a range is as much of A
/// as fits with a slab. The results of slabs wait in a scratch file and are added up.
/// Values: output = null: only the indices are sorted, and instead of computing ranges, their number and their time are
/// predicted; choice = a decision out of core, which is set to what ran last, with the memory of the whole. Memory:
/// choice.host_limit_bytes. Errors: FormatError; OutOfMemory (no scratch file, or it is full); IoError; what
/// `multiply_at_once` throws.
ProductStats multiply_out_of_core(const Inputs& inputs, Output* output, const MultiplyAtOnce& multiply_at_once,
                                  const Run& run, std::span<const std::string> scratch_folders, plan::Choice& choice);

}  // namespace spmm
