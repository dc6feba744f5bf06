// The one decision: statistics and limits to an Execution. Pure; called with expected statistics before anything is
// read, and again with exact ones once pairs are counted.
#pragma once

#include "plan/execution.hpp"

namespace spmm::plan {

/// The way to run a product: the backend by predicted time, the kernel by rule. Where nothing fits at once and the
/// statistics are expected ones, the product runs out of core; what does not fit then is refused, as data.
/// Values: never throws for lack of memory; equal inputs give equal executions.
Execution decide(const Statistics& s, const Limits& limits);

/// The fastest way that keeps both operands in memory as a whole; refused if there is none.
Execution decide_at_once(const Statistics& s, const Limits& limits);

}  // namespace spmm::plan
