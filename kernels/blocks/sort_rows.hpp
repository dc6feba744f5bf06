// The door to sort_rows.cu: operands sorted by row and column. Stream, Errors: as in launch.hpp next to it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/tuning.hpp"
#include "kernels/views.hpp"

namespace spmm::kernels {

/// One matrix that launch_sort_rows sorts.
/// Shapes: [count] if nothing else is said; all on the device.
struct RowSort {
  std::uint64_t count = 0;
  bool is_sorted = false;                // keys ascend
  const std::uint64_t* keys = nullptr;   // file order: block row << key_bits | block column
  std::uint64_t* entries = nullptr;      // scratch
  std::uint64_t* sorted_keys = nullptr;  // ascending
  std::uint32_t* numbers = nullptr;      // record number of each block
  std::uint32_t* columns = nullptr;
  std::uint32_t* rows = nullptr;           // [min(count, nb)]
  std::uint32_t* offsets = nullptr;        // [min(count, nb) + 1]
  std::uint32_t* num_rows = nullptr;       // [1]
  std::uint32_t* longest_row = nullptr;    // [1], 0 before: its blocks, beyond kBitmapColumns block columns
  std::uint32_t* has_duplicate = nullptr;  // [1], 0 before: 1 if two blocks have the same key
};

/// Words from the counter of a block row to the next: few counters have a sector of 32 bytes each, for atomics to one
/// sector wait for each other.
constexpr std::uint32_t counter_stride(std::uint32_t nb) {
  return nb <= kBitmapColumns ? 8 : 1;
}

/// Shapes: device.
struct RowSortScratch {
  std::uint32_t* counts = nullptr;   // [sorts * nb, counter_stride(nb)], zeros before
  std::uint64_t* borders = nullptr;  // [sorts * nb + 1]: before each block row of the matrices, one after the other,
                                     // stored rows << 32 | blocks
  Workspace work;
};

/// Scratch bytes of launch_sort_rows, num_counts = sorts * nb.
std::size_t sort_rows_workspace_bytes(std::uint64_t num_counts);

/// Sorts one or two matrices by row and column, and compresses their rows: what launch_sort_blocks, row_offsets,
/// row_ids and take_columns do. Where a key comes twice, or, beyond kBitmapColumns block columns, a row has more than
/// kCountedRowBlocks blocks, only longest_row and has_duplicate are of use.
/// Values: fewer than 2^32 blocks together; scratch.work is 8-byte aligned.
void launch_sort_rows(std::span<const RowSort> sorts, const RowSortScratch& scratch, std::uint32_t nb,
                      unsigned key_bits, cudaStream_t stream);

/// *end = block columns up to the last one that holds a block of these rows, whose columns ascend.
/// Shapes: end [1], device.
void launch_columns_end(CompressedView rows, unsigned long long* end, cudaStream_t stream);

}  // namespace spmm::kernels
