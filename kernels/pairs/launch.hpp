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

std::size_t find_split_k_workspace_bytes(std::uint64_t max_c_blocks);

/// Finds the C blocks with more than kSplitKPairs pairs: writes found.c_blocks and found.count.
void launch_find_split_k(const PairListView& list, const SplitKView& found, Workspace work, cudaStream_t stream);

/// Multiplies all pairs of the C blocks found and adds them up: writes found.sums.
/// Values: num_pairs = all pairs of the list, less than 2^32.
/// Shapes: elements of both operands [nnzb, P, P], P = padded_side(m).
void launch_add_split_k(const PairValues& values, const PairListView& list, std::uint64_t num_pairs, std::uint32_t m,
                        const SplitKView& found, cudaStream_t stream);

// ---- esc.cu

/// Pairs listed by C block, and what is known of their products. Operands are padded to padded_side(m).
struct EscProduct {
  PairValues values;
  PairListView list;
  SplitKView split_k;  // sums made before; empty if no C block has so many pairs
  std::uint32_t m = 0;
  std::uint32_t max_element = 0;  // largest element of both operands
  bool can_be_zero = true;        // false if launch_find_zeros found nothing
};

/// A CTA per some C blocks: multiplies the pairs listed for each and writes records.
void launch_mul_esc(const EscProduct& product, const CBlocksView& c_blocks, const RecordOutput& out,
                    cudaStream_t stream);

// ---- short_row_products.cu

/// A panel of short rows none of whose C blocks can be zero, m = 8.
struct ShortRowProduct {
  ExpandView view;
  PairValues values;
  std::uint32_t max_element = 0;  // largest element of both operands
};

/// Scratch bytes of launch_mul_short_rows; max_row_pairs as there.
std::size_t mul_short_rows_workspace_bytes(std::uint64_t num_pairs, std::uint64_t max_row_pairs);

/// Lists and multiplies a panel at once: what launch_list_short_rows and launch_mul_esc do.
/// Values: max_row_pairs <= kShortRowPairs; work is 8-byte aligned.
/// Shapes: packed records 16-byte aligned; out.look_back is not used.
void launch_mul_short_rows(const ShortRowProduct& product, const PanelPairs& panel, std::uint64_t max_row_pairs,
                           Workspace work, const RecordOutput& out, cudaStream_t stream);

}  // namespace spmm::kernels
