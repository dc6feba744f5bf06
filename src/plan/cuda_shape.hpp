// How a CUDA kernel would run a product within given limits: panels, groups of block columns, memory, time.
#pragma once

#include "plan/execution.hpp"
#include "plan/registry.hpp"

namespace spmm::plan {

/// Everything but the row panels; refused where it does not fit or the device lacks what the kernel needs.
/// Values: limits.device must be there.
Execution cuda_shape(const KernelRow& kernel, const Problem& p);

/// Cuts the row panels of an exact execution, and sets the layout that follows from them.
void cut_row_panels(Execution& execution, const Problem& p);

/// Asks for the tiles of tile-tensor where an exact execution of another kernel is slow enough for it to be worth
/// while.
void want_tile_counts(Execution& execution, const Problem& p);

/// Asks for a look at some rows of the result where an exact execution is slow enough for it to be worth while, and
/// row-rank runs or might be faster.
void want_row_sample(Execution& execution, const Problem& p);

}  // namespace spmm::plan
