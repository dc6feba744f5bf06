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

/// Adds up the pairs of the C blocks that have more than kSplitKPairs: split_k_slot() of sums.
/// Values: num_pairs = all pairs of the list, less than 2^32.
/// Shapes: elements of both operands [nnzb, P, P], P = padded_side(m); sums [num_split_k_slots(num_pairs), m, m],
/// device.
void launch_add_split_k(const PairValues& values, const PairListView& list, std::uint64_t num_pairs, std::uint32_t m,
                        std::uint64_t* sums, cudaStream_t stream);

// ---- esc.cu

/// Pairs listed by C block, and what is known of their products. Operands are padded to padded_side(m).
struct EscProduct {
  PairValues values;
  PairListView list;
  const std::uint64_t* split_k_sums = nullptr;  // of launch_add_split_k; null if no C block has so many pairs
  std::uint32_t m = 0;
  std::uint32_t max_element = 0;  // largest element of both operands
  bool can_be_zero = true;        // a product of two blocks

  /// Whether the products of two pairs always fit 32 bits.
  [[nodiscard]] SPMM_HOST_DEVICE bool two_products_fit() const {
    return std::uint64_t{2} * m * max_element * max_element <= kMaxVal;
  }
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

/// Lists and multiplies a panel at once: what launch_list_short_rows and launch_mul_esc do.
/// Values: max_row_pairs <= kShortRowPairs; work is 8-byte aligned, of short_rows_workspace_bytes().
/// Shapes: packed records 16-byte aligned; out.look_back is not used.
void launch_mul_short_rows(const ShortRowProduct& product, const PanelPairs& panel, std::uint64_t max_row_pairs,
                           Workspace work, const RecordOutput& out, cudaStream_t stream);

// ---- planned.cu

/// Block side of planned lists.
inline constexpr std::uint32_t kPlannedListSide = 8;

/// C = A * B, saturated, where pairs name blocks of the caller.
/// Shapes: a, b [any, 8, 8] row-major, 4-byte aligned; c [num_c_blocks, 8, 8], 8-byte aligned.
void launch_mul_planned_list(const PairListView& list, const std::uint16_t* a, const std::uint16_t* b, std::uint32_t* c,
                             cudaStream_t stream);

}  // namespace spmm::kernels
