// Products whose operands do not fit the memory limit: A in slabs of block rows, B in slabs of block columns.
#pragma once

#include <functional>

#include "base/run/run.hpp"
#include "plan/execution.hpp"
#include "spmm/stream.hpp"

namespace spmm {

/// Runs one product at once into a sink, without finish(); the exact decision replaces `execution`.
using RunAtOnce = std::function<ProductStats(const Source& a, const Source& b, Sink& sink, plan::Execution& execution)>;

/// Adds the product of two slabs to the sums of all. Errors: OutOfMemory (too many blocks).
void add_slab(const ProductStats& one, const Sink& sink, ProductStats& total);

/// Sets an execution to what ran last, with the partition and the memory of the whole.
void adopt_last(plan::Execution last, plan::Execution& whole);

/// Multiplies at once if the decision says so, else slab by slab; the records reach the sink in the same order either
/// way. Slabs are read from a scratch file in one of run.scratch_folders if the decision has one and it can be made,
/// else from the sources: of those in memory only the records of the slab, of others also those between. `decide` is
/// asked with expected statistics, and again with the exact sizes of all
/// slabs where there are some. `execution` is set to what ran; of several slabs, to the last product with the partition
/// of the whole. Memory: 6 bytes per record of both inputs; with several slabs of B also execution.kept_bytes for the
/// result of one slab of A (a slab of A whose result is larger is divided further). Errors: what a refusal stands for;
/// FormatError; what `run_at_once` throws.
ProductStats multiply_out_of_core(const Source& a, const Source& b, Sink& sink, const plan::Decide& decide,
                                  const RunAtOnce& run_at_once, const Run& run, plan::Execution& execution);

}  // namespace spmm
