// The CPU backend: the reference kernel and the fast threaded ones.
#pragma once

#include <cstdint>
#include <string>

#include "base/run.hpp"
#include "spmm/plan.hpp"
#include "spmm/stream.hpp"

namespace spmm::cpu {

/// Name of the widest instruction set the row-merge kernel would use here ("avx512-vnni", "avx2", "portable").
std::string instruction_set();

/// Library of the dense-blas kernel ("OpenBLAS 0.3.21"); empty in a build without one, which lacks that kernel.
std::string build_info();

/// The kernel that "auto" stands for where nothing is left to choose; else "auto", decided once pairs are counted.
std::string default_kernel();

/// For kernel "auto": both candidates with predicted times if blocks are evenly spread, fastest first.
std::string expected_kernels(const MatrixHeader& a, const MatrixHeader& b, const Plan& plan);

/// Predicted peak of host buffers for the plan's kernel, threads, panel_bytes and num_buffers, both operands included.
/// Values: "auto" needs what row-merge needs; it takes dense-blas only where that fits plan.host_limit_bytes too.
std::uint64_t need_bytes(const MatrixHeader& a, const MatrixHeader& b, const Plan& plan);

/// C = A * B, records to `sink` in order. Does not call sink.finish().
/// plan.kernel is "reference" (one thread, the definition), "row-merge", "dense-blas" or "auto" (the faster of those
/// two by exact counts); plan.panel_bytes bounds one output buffer and plan.num_buffers their number.
/// Errors: FormatError (index out of range, duplicate block; names both records), Interrupted, what source and sink
/// throw.
ProductStats multiply(const Source& a, const Source& b, Sink& sink, const Plan& plan, const Run& run);

}  // namespace spmm::cpu
