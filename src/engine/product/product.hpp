// One product from two sources into a sink: backend, plan, slabs where it does not fit at once.
#pragma once

#include "base/run/run.hpp"
#include "plan/statistics.hpp"
#include "spmm/multiply.hpp"
#include "spmm/stream.hpp"

namespace spmm {

/// The backend the options insist on, by name or through a kernel; automatic where they leave it open.
/// Errors: UsageError for an unknown kernel, or one of another backend.
Backend wanted_backend(const ProductOptions& options);

/// Errors: ShapeError if the operands cannot be multiplied.
void check_shapes(const Source& a, const Source& b);

/// Host threads of a product with these options.
unsigned num_threads(const Options& options, unsigned num_cores);

/// Limits of a product with these options on this machine. Errors: UsageError for an unknown kernel.
plan::Limits product_limits(const plan::Machine& machine, const Options& options);

/// What multiply_product() would do with operands of these headers. Errors: what a refusal stands for.
Plan plan_product(const MatrixHeader& a, const MatrixHeader& b, const plan::Limits& limits);

/// Waits for the memory of multiply_product() with these arguments and run.beside_bytes, or of `least_bytes` and those.
/// For who allocates before that: memory is reserved once. Errors: what a refusal stands for; Interrupted.
void reserve_product(const Source& a, const Source& b, const plan::Limits& limits, const Run& run,
                     std::uint64_t least_bytes = 0);

/// Multiplies within limits that name the backend, up to and including sink.finish(); fills the parts of the report
/// that the product itself knows (all but times, host memory and verification). Errors: every class of error.hpp.
ProductStats multiply_product(const Source& a, const Source& b, Sink& sink, const plan::Limits& limits, const Run& run,
                              Report& report);

}  // namespace spmm
