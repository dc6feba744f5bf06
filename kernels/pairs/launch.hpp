// The door to the kernels that multiply listed pairs (ESC). Declarations without CUDA syntax.
// Stream: every launch is asynchronous on the given stream and waits for nothing.
// Errors: CudaError from the launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/blocks/launch.hpp"
#include "kernels/views.hpp"

namespace spmm::kernels {

// ---- split_k.cu

/// Adds up the pairs of the C blocks that have more than kSplitKPairs: split_k_slot() of list.split_k_sums.
/// Values: num_pairs = all pairs of the list, less than 2^32. Shapes: operands are padded to padded_side(m).
void launch_add_split_k(const RowProduct& product, const PairListView& list, std::uint64_t num_pairs,
                        cudaStream_t stream);

// ---- esc.cu

/// A CTA per some C blocks: multiplies the pairs listed for each and writes records. Shapes: operands are padded to
/// padded_side(m).
void launch_mul_esc(const RowProduct& product, const PairListView& list, const CBlocksView& c_blocks,
                    const RecordOutput& out, cudaStream_t stream);

// ---- short_row_products.cu

/// Lists and multiplies a panel of short rows at once, as launch_list_short_rows and launch_mul_esc do.
/// Values: m = kShortRowSide, no C block can be zero; max_row_pairs <= kShortRowPairs; work is 8-byte aligned, of
/// short_rows_workspace_bytes(). Shapes: packed records 16-byte aligned; out.look_back is not used.
void launch_mul_short_rows(const RowProduct& product, const PanelPairs& panel, std::uint64_t max_row_pairs,
                           Workspace work, const RecordOutput& out, cudaStream_t stream);

// ---- planned.cu

/// Block side of planned lists.
inline constexpr std::uint32_t kPlannedListSide = 8;

/// C = A * B, saturated, where pairs name blocks of the caller.
/// Shapes: a, b [any, 8, 8] row-major, 4-byte aligned; c [num_c_blocks, 8, 8], 8-byte aligned.
void launch_mul_planned_list(const PairListView& list, const std::uint16_t* a, const std::uint16_t* b, std::uint32_t* c,
                             cudaStream_t stream);

}  // namespace spmm::kernels
