// The one decision: counts and limits to a choice. Pure; called with expected counts before anything is
// read, and again with exact ones once pairs are counted.
#pragma once

#include "plan/registry.hpp"

namespace spmm::plan {

/// The way to run a product: the backend by predicted time, the kernel by rule. Where nothing fits at once and the
/// counts are expected ones, the product runs out of core; what does not fit then is refused, as data.
/// Values: never throws for lack of memory; equal inputs give equal executions.
Choice decide(const Counts& s, const Limits& limits);

/// The fastest way that keeps both operands in memory as a whole; refused if there is none.
Choice decide_at_once(const Counts& s, const Limits& limits);

/// The most threads that fit with buffers of a useful size, else the largest buffers that fit; refused where none do.
Choice cpu_shape(const KernelRow& kernel, const Counts& s, const Limits& limits);

/// Everything but the row panels; refused where it does not fit or the device lacks what the kernel needs.
/// Values: limits.gpus has one.
Choice cuda_shape(const KernelRow& kernel, const Counts& s, const Limits& limits);

/// Cuts the row panels of an exact choice, shares them out among the devices, and sets the layout that follows from
/// them. Asks for the tiles of tile-tensor instead, or in addition, if they are worth counting.
void cut_row_panels(Choice& choice, const Counts& s, const Limits& limits);

}  // namespace spmm::plan
