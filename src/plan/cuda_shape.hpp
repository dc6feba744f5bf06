// How a CUDA kernel would run a product within given limits: panels, groups of block columns, memory.
#pragma once

#include "plan/execution.hpp"
#include "plan/registry.hpp"

namespace spmm::plan {

/// Everything but the row panels; refused where it does not fit or the device lacks what the kernel needs.
/// Values: limits.device must be there.
Execution cuda_shape(const KernelRow& kernel, const Problem& p);

/// Cuts the row panels of an exact execution, and sets the layout that follows from them.
void cut_row_panels(Execution& execution, const Problem& p);

/// Asks for the tiles of tile-tensor if an exact execution of another kernel takes long enough for them to be worth
/// counting.
void want_tile_counts(Execution& execution, const Problem& p);

}  // namespace spmm::plan
