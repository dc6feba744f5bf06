// One product from two sources into a sink: backend, plan, out of core where it does not fit at once.
#pragma once

#include <memory>

#include "base/run/run.hpp"
#include "cuda/arrays/device_arrays.hpp"
#include "engine/product/operands.hpp"
#include "engine/memory/output.hpp"
#include "plan/execution.hpp"
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

/// What is expected to run within limits that name the backend. Errors: what a refusal stands for.
plan::Execution plan_product(const plan::Statistics& expected, const plan::Limits& limits);

/// plan_product(), and waits for its memory and run.extra_bytes, or for `least_bytes` and those: memory is reserved
/// once, before anything is allocated. Errors: as plan_product(); Interrupted.
plan::Execution reserve_product(const ProductOperands& operands, const plan::Limits& limits, const Run& run,
                                std::uint64_t least_bytes = 0);

/// Multiplies as planned within the same limits, up to and including sink.finish(); fills the parts of the report that
/// the product itself knows (all but times, host memory and verification). Values: expected: its memory is reserved.
/// Errors: every class of error.hpp.
ProductStats multiply_product(const ProductOperands& operands, Output& sink, const plan::Limits& limits,
                              plan::Execution expected, const Run& run, Report& report);

/// A plan for a product of arrays in device memory: run.arrays. What `run` refers to must outlive it.
/// Errors: OutOfMemory (it does not fit at once), as multiply_product().
std::unique_ptr<cuda::PlannedProduct> plan_device_product(const ProductOperands& operands, const plan::Limits& limits,
                                                          const Run& run);

}  // namespace spmm
