// A product takes its part of the engine's memory, and leaves some of it to what stays in addition to the product.
#pragma once

#include <cstdint>

#include "base/run/run.hpp"
#include "plan/inputs/statistics.hpp"
#include "spmm/options.hpp"
#include "spmm/plan.hpp"
#include "spmm/stream.hpp"

namespace spmm {

/// Waits until the other products of the engine leave what this plan needs, and at least `least_bytes` in addition to
/// run.extra_bytes. The first call of a product counts, before anything is allocated; a later one does nothing.
/// A product out of core sizes its ranges by the limit: it takes everything (but what the
/// plan has left to a result that stays in memory). Errors: Interrupted.
void reserve_memory(const Plan& plan, const Run& run, std::uint64_t least_bytes = 0);

/// Takes from the limits a result that stays in memory: as much as is expected of the headers, at most three quarters
/// of the limit. More than that it takes only as far as the product leaves memory free.
void leave_to_result(const plan::Statistics& expected, const Sink& sink, plan::Limits& limits);

}  // namespace spmm
