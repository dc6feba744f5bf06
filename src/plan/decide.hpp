// The one decision: statistics and limits to an Execution. Pure; called with expected statistics before anything is
// read, and again with exact ones once pairs are counted.
#pragma once

#include "plan/execution.hpp"

namespace spmm::plan {

/// The fastest way to run a product that fits the limits, by predicted time. Where nothing fits at once and the
/// statistics are expected ones, the operands are cut into slabs; what then fits nowhere is refused, as data.
/// Values: never throws for lack of memory; equal inputs give equal executions.
Execution decide(const Statistics& statistics, const Limits& limits);

}  // namespace spmm::plan
