// How a kernel would run a product within given limits: threads, buffers, panels, groups of block columns, memory.
#pragma once

#include "plan/execution.hpp"
#include "plan/registry.hpp"

namespace spmm::plan {

/// The most threads that fit with buffers of a useful size, else the largest buffers that fit; refused where none do.
Execution cpu_shape(const KernelRow& kernel, const Statistics& s, const Limits& limits);

/// Everything but the row panels; refused where it does not fit or the device lacks what the kernel needs.
/// Values: limits.gpus has one.
Execution cuda_shape(const KernelRow& kernel, const Statistics& s, const Limits& limits);

/// Cuts the row panels of an exact execution, shares them out among the devices, and sets the layout that follows from
/// them. Asks for the tiles of tile-tensor instead, or in addition, if they are worth counting.
void cut_row_panels(Execution& execution, const Statistics& s, const Limits& limits);

}  // namespace spmm::plan
