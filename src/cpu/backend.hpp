// The CPU backend: the reference kernel and the fast threaded ones.
#pragma once

#include <string>

#include "base/run/run.hpp"
#include "plan/execution.hpp"
#include "spmm/stream.hpp"

namespace spmm::cpu {

/// Whether the build has the dense-blas kernel.
bool has_dense_blas();

/// Library of the dense-blas kernel ("OpenBLAS 0.3.21"), which is loaded for its name; empty in a build without one.
std::string build_info();

/// C = A * B, records to `sink` in order. Does not call sink.finish().
/// `execution` is the expected decision; once pairs are counted, `decide` gives the exact one, which is run as it
/// stands and left in `execution` (the reference kernel counts nothing and runs the expected one).
/// Errors: FormatError (index out of range, duplicate block; names both records), OutOfMemory, Interrupted, what source
/// and sink throw.
ProductStats multiply(const Source& a, const Source& b, Sink& sink, plan::Execution& execution,
                      const plan::Decide& decide, const Run& run);

}  // namespace spmm::cpu
