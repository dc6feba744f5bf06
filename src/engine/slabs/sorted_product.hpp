// Products out of core whose operands are sorted into a scratch file first: each slab of A is read once, with the block
// rows of B that it needs.
#pragma once

#include "base/run/run.hpp"
#include "engine/slabs/out_of_core.hpp"
#include "engine/slabs/sorted_matrix.hpp"
#include "plan/execution.hpp"
#include "spmm/stream.hpp"

namespace spmm::slabs {

/// Multiplies slabs of as many block rows as keep execution.slab_caps. A block row of A that needs more of B than fits
/// is streamed, as are rows that are faster so: results are never kept. `execution` is set to the last product at once
/// with the partition of the whole.
/// Values: both operands by rows. Memory: plan::sorted_list_bytes() in addition to the slabs. Errors: as
/// multiply_out_of_core().
ProductStats multiply_sorted(const ScratchOperands& operands, Sink& sink, const MultiplyAtOnce& multiply_at_once,
                             const Run& run, plan::Execution& execution);

}  // namespace spmm::slabs
