// The CPU backend: the reference kernel and row-merge, the fast threaded one.
#pragma once

#include "base/run/output.hpp"
#include "base/run/run.hpp"
#include "plan/execution.hpp"
#include "spmm/stream.hpp"

namespace spmm::cpu {

/// C = A * B, records to `output` in order. Does not call sink.finish().
/// `choice` is the expected decision; once pairs are counted, `decide` gives the exact one, which is run as it
/// stands and left in `choice` (the reference kernel counts nothing and runs the expected one).
/// Errors: FormatError (index out of range, duplicate block; names both records), OutOfMemory, Interrupted, what source
/// and sink throw.
ProductStats multiply(const Source& a, const Source& b, Output& output, plan::Choice& choice,
                      const plan::Decide& decide, const Run& run);

}  // namespace spmm::cpu
