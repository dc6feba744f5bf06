// The CPU backend: the reference kernel and the fast threaded one.
#pragma once

#include <cstdint>
#include <string>

#include "spmm/plan.hpp"
#include "spmm/run.hpp"
#include "spmm/stream.hpp"

namespace spmm::cpu {

/// Name of the widest instruction set the row-merge kernel would use here ("avx512-vnni", "avx2", "portable").
std::string instruction_set();

/// Predicted peak of host buffers for the plan's kernel, threads, panel_bytes and num_buffers, both operands included.
std::uint64_t need_bytes(const MatrixHeader& a, const MatrixHeader& b, const Plan& plan);

/// C = A * B, records to `sink` in order. Does not call sink.finish().
/// plan.kernel is "reference" (one thread, the definition) or "row-merge"; plan.panel_bytes bounds one output buffer
/// and plan.num_buffers their number.
/// Errors: FormatError (index out of range, duplicate block; names both records), Interrupted, what source and sink
/// throw.
ProductStats multiply(const Source& a, const Source& b, Sink& sink, const Plan& plan, const RunContext& context);

}  // namespace spmm::cpu
