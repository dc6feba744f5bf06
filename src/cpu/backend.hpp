// The CPU backend: the reference kernel and row-merge, the fast threaded one.
#pragma once

#include "base/run/output.hpp"
#include "base/run/run.hpp"
#include "plan/choice.hpp"
#include "spmm/stream.hpp"

namespace spmm::cpu {

/// C = A * B, records to `output` in order. Does not call sink.finish().
/// `choice` is made from the headers; once pairs are counted, it is made again within its limits (the reference kernel
/// counts nothing).
/// Errors: FormatError (index out of range, duplicate block; names both records), OutOfMemory, Interrupted, what source
/// and sink throw.
ProductStats multiply(const Source& a, const Source& b, Output& output, plan::Choice& choice, const Run& run);

}  // namespace spmm::cpu
