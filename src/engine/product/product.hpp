// Limits and decisions of one product, and its memory.
#pragma once

#include <cstdint>

#include "base/run/run.hpp"
#include "cuda/backend.hpp"
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

/// Limits of a product with these options on this host, without devices. Errors: UsageError for an unknown kernel.
plan::Limits product_limits(const Options& options, std::uint64_t host_bytes);

/// What is expected to run within limits that name the backend. Errors: what a refusal stands for.
plan::Execution plan_product(const plan::Statistics& expected, const plan::Limits& limits);

/// The decision on exact statistics. What it wants beyond the memory that the product has reserved is taken at once;
/// where other products hold it, the product makes do with its own. Only row-rank asks for so much more than is
/// expected of headers.
plan::Execution decide_within_share(const plan::Statistics& statistics, const plan::Limits& limits, const Run& run);

/// Waits until the other products of the engine leave what this decision needs, or end_bytes if that is more, and
/// extra_bytes. The first call of a product counts, before anything is allocated; a later one does nothing. A product
/// out of core sizes its ranges by the limit: it takes everything (but what the decision has left to a result that
/// stays in memory). Errors: Interrupted.
void reserve_memory(const plan::Execution& execution, const cuda::DeviceRun& run, std::uint64_t extra_bytes = 0,
                    std::uint64_t end_bytes = 0, bool keeps_result = false);

/// Takes from the limits a result that stays in memory: as much as is expected of the headers, at most three quarters
/// of the limit. More than that it takes only as far as the product leaves memory free.
void leave_to_result(const plan::Statistics& expected, const Sink& sink, plan::Limits& limits);

}  // namespace spmm
