// Products whose operands do not fit the memory limit: A in slabs of block rows, B in slabs of block columns.
#pragma once

#include <functional>

#include "base/records/inputs.hpp"
#include "base/run/run.hpp"
#include "plan/execution.hpp"
#include "spmm/stream.hpp"

namespace spmm {

/// Runs one product at once into a sink, without finish(); the exact decision replaces `execution`.
using MultiplyAtOnce = std::function<ProductStats(const Inputs& inputs, Sink& sink, plan::Execution& execution)>;

/// What the headers let expect, and how slabs would be read.
plan::Statistics expected_statistics(const Inputs& inputs);

/// Adds the product of two slabs to the sums of all. Errors: OutOfMemory (too many blocks).
void add_slab(const ProductStats& one, ProductStats& total);

/// Sets an execution to what ran last, with the partition and the memory of the whole.
void adopt_last(plan::Execution last, plan::Execution& whole);

/// Multiplies at once if `execution` says so, else slab by slab; the records reach the sink in the same order either
/// way. Slabs are read from a scratch file in one of run.scratch_folders if the decision has one and it can be made,
/// else from the sources: of those in memory only the records of the slab, of others also those between. `decide` is
/// asked again with the exact sizes of all slabs. `execution` is set to what ran; of several slabs, to the last product
/// with the partition of the whole.
/// Values: execution: not refused, decided on expected_statistics(). Memory: 6 bytes per record of both inputs; with
/// several slabs of B also execution.kept_bytes for the result of one slab of A (a slab of A whose result is larger is
/// divided further). Errors: what a refusal stands for; FormatError; what `multiply_at_once` throws.
ProductStats multiply_out_of_core(const Inputs& inputs, Sink& sink, const plan::Decide& decide,
                                  const MultiplyAtOnce& multiply_at_once, const Run& run, plan::Execution& execution);

}  // namespace spmm
