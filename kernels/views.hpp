// Non-owning views of device data; plain structs, passed to kernels by value.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/tuning.hpp"
#include "spmm/saturate.hpp"

namespace spmm::kernels {

/// No stored row: neither a row index nor a block row.
inline constexpr std::uint32_t kNoRow = 0xFFFF'FFFFu;

/// Compressed rows (DCSR): block-CSR without the empty rows, so that nothing is proportional to the number of block
/// rows. DCSC is the same struct with rows read as columns and columns as rows. Row index: position among the stored
/// rows.
struct CompressedView {
  std::uint32_t num_rows = 0;
  const std::uint32_t* rows = nullptr;     // [num_rows], device: block row of each row index, ascending
  const std::uint32_t* offsets = nullptr;  // [num_rows + 1], device: first block of each row
  const std::uint32_t* columns = nullptr;  // [nnzb], device: block column, ascending per row
};

/// What sorting a matrix by counting tells (launch_sort_rows); on the device.
struct SortFindings {
  std::uint32_t num_rows = 0;
  std::uint32_t longest_row = 0;    // its blocks, beyond kBitmapColumns block columns; else 0
  std::uint32_t has_duplicate = 0;  // 1 if two blocks have the same key
  std::uint32_t unused = 0;

  /// Whether the sort has ended well.
  [[nodiscard]] SPMM_HOST_DEVICE bool is_sorted() const {
    return has_duplicate == 0 && longest_row <= kCountedRowBlocks;
  }
};

/// Rows of a run, so that there are not more than max_runs.
SPMM_HOST_DEVICE inline std::uint32_t run_stride(std::uint32_t num_rows, std::uint32_t max_runs) {
  return (num_rows - 1) / max_runs + 1;
}

/// What counting the pairs of rows finds in addition to them.
struct MatchTotals {
  unsigned long long max_row_pairs = 0;
  unsigned long long max_row_blocks = 0;  // of A: no element of C is a sum over more of them
  unsigned long long columns_end = 0;     // block columns of B up to the last one that holds a block
};

/// How the elements of an operand's blocks lie: rows and columns behind m are zeros.
struct BlockShape {
  std::uint32_t m = 0;
  std::uint32_t side = 0;  // m, or padded_side(m) if the row kernels read them
};

/// Operand blocks in the order of a CompressedView.
/// Layout: A row-major; B transposed within the block, so that a column is contiguous.
struct OperandView {
  CompressedView index;
  const std::uint16_t* values = nullptr;   // [nnzb, side, side], device
  const std::uint32_t* numbers = nullptr;  // [nnzb], device: which of values belongs to each block; null = in order

  [[nodiscard]] SPMM_HOST_DEVICE std::uint32_t number(std::uint32_t x) const {
    return numbers == nullptr ? x : numbers[x];
  }
};

/// Blocks of a matrix in any order.
struct BlocksView {
  const std::uint16_t* values = nullptr;  // [count, side, side], device
  std::uint64_t count = 0;
};

/// A by rows times B by rows, and what is known of it: what kernels that sum by row or list pairs multiply.
struct RowProduct {
  OperandView a;
  OperandView b;                                // columns as C blocks name them
  const std::uint32_t* b_row_index = nullptr;   // [nnzb of A], device: row index in B, or kNoRow
  const std::uint64_t* pair_offsets = nullptr;  // [nnzb of A + 1], device: pairs before each block; row-spread has none
  std::uint64_t num_a_blocks = 0;
  std::uint32_t num_b_blocks = 0;  // of which b.values has room: kUnitBlocks at least
  std::uint32_t num_columns = 0;   // of C
  std::uint32_t m = 0;
  std::uint32_t fitting_pairs = 0;  // of a C block whose sums fit 32 bits, whatever the elements are
  bool can_be_zero = true;          // a product of two blocks

  /// Pairs of a row of A.
  [[nodiscard]] SPMM_HOST_DEVICE std::uint64_t pairs_of_row(std::uint32_t row) const {
    return pair_offsets[a.index.offsets[row + 1]] - pair_offsets[a.index.offsets[row]];
  }
  /// Whether no sum of a row of C can leave 32 bits.
  [[nodiscard]] SPMM_HOST_DEVICE bool row_fits(std::uint32_t row) const {
    return a.index.offsets[row + 1] - a.index.offsets[row] <= fitting_pairs;
  }
};

/// C blocks of one row panel, in result order. A C block is named by A's row index and by B's column index (B by
/// columns) or the block column itself (B by rows).
struct CBlocksView {
  std::uint64_t num_c_blocks = 0;
  const std::uint64_t* keys = nullptr;  // [num_c_blocks], device: (row index - row_begin) << column_bits | column;
                                        // null = every C block of the panel
  std::uint32_t row_begin = 0;
  std::uint32_t num_rows = 0;
  std::uint32_t column_begin = 0;  // only if keys is null
  std::uint32_t num_columns = 0;
  std::uint32_t column_bits = 0;
};

struct CBlock {
  std::uint32_t row = 0;     // row index in A
  std::uint32_t column = 0;  // column index in B, or the block column itself
};

/// Row index and column of C block number `x`.
SPMM_HOST_DEVICE inline CBlock c_block_at(const CBlocksView& c_blocks, std::uint64_t x) {
  if (c_blocks.keys == nullptr) {
    return {.row = c_blocks.row_begin + static_cast<std::uint32_t>(x / c_blocks.num_columns),
            .column = c_blocks.column_begin + static_cast<std::uint32_t>(x % c_blocks.num_columns)};
  }
  const std::uint64_t key = c_blocks.keys[x];
  return {.row = c_blocks.row_begin + static_cast<std::uint32_t>(key >> c_blocks.column_bits),
          .column = static_cast<std::uint32_t>(key & ((std::uint64_t{1} << c_blocks.column_bits) - 1))};
}

/// Columns from the first to the last that a row's pairs have, within the panel.
struct ColumnSpan {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

/// One block of A times one block of B, by their positions in the operands.
struct BlockPair {
  std::uint32_t a = 0;
  std::uint32_t b = 0;
};

/// C blocks of one panel with the list of pairs of each.
struct PairListView {
  std::uint64_t num_c_blocks = 0;
  const std::uint32_t* offsets = nullptr;  // [num_c_blocks + 1], device
  const BlockPair* pairs = nullptr;        // [offsets[num_c_blocks]], device
  std::uint64_t* split_k_sums = nullptr;   // [num_split_k_slots(pairs), m, m], device: of C blocks with more than
                                           // kSplitKPairs pairs; null: there are none
};

/// What a multiply kernel fills: values and flag of each C block.
struct CBlockResults {
  std::uint32_t* values = nullptr;   // [num_c_blocks, m, m], device, saturated
  std::uint8_t* non_zero = nullptr;  // [num_c_blocks], device: 1 if an element is not zero
};

/// Where the records {i, j, values} of C blocks lie: packed, one behind the other, or heads and elements in arrays of
/// their own.
/// Layout: the head {i, j} of record r at heads + r * head_stride, its elements at values + r * value_stride; strides
/// in 32-bit words. All are 8-byte aligned if m is even; heads always.
struct RecordPlaces {
  std::uint32_t* heads = nullptr;   // device
  std::uint32_t* values = nullptr;  // device
  std::uint32_t head_stride = 0;
  std::uint32_t value_stride = 0;

  [[nodiscard]] SPMM_HOST_DEVICE bool are_packed() const { return head_stride == value_stride; }
};

/// Shapes: records [any, 2 + m * m], device, 8-byte aligned.
SPMM_HOST_DEVICE inline RecordPlaces packed_records(std::uint32_t* records, std::uint32_t m) {
  return {.heads = records, .values = records + 2, .head_stride = 2 + m * m, .value_stride = 2 + m * m};
}

/// Shapes: heads [any, 2], values [any, m, m], device, 8-byte aligned.
SPMM_HOST_DEVICE inline RecordPlaces records_in_arrays(std::uint32_t* heads, std::uint32_t* values, std::uint32_t m) {
  return {.heads = heads, .values = values, .head_stride = 2, .value_stride = m * m};
}

/// Where a kernel writes the records of the C blocks of a panel itself, zero blocks left out.
struct RecordOutput {
  RecordPlaces to{};                          // room for the records before, and the C blocks of the panel at most
  const std::uint32_t* num_before = nullptr;  // [1], device: records of panels before in the same place; null: none
  const std::uint32_t* rows = nullptr;        // [rows of A], device: block row of each row index
  std::uint64_t* look_back = nullptr;   // [1 + C blocks of the panel at most], device: CTA counter, look-back states
  std::uint32_t* num_blocks = nullptr;  // [1]: records so far; device, or host memory the device can write
  // [1], device: the largest element of both operands. A launch does nothing unless it lies in these bounds: of two,
  // one is right for the elements at hand. null: it does its work.
  const std::uint32_t* largest = nullptr;
  std::uint32_t least_largest = 0;
  std::uint32_t most_largest = 0;
};

/// Scratch memory for library calls.
struct Workspace {
  void* data = nullptr;
  std::size_t bytes = 0;
};

/// Arrays that a radix sort moves between; `current` = the one that holds the data.
template <class T>
struct SortBuffers {
  T* data[2] = {nullptr, nullptr};  // [n] each, device
  int current = 0;

  [[nodiscard]] SPMM_HOST_DEVICE T* front() const { return data[current]; }
  [[nodiscard]] SPMM_HOST_DEVICE T* back() const { return data[1 - current]; }
};

}  // namespace spmm::kernels
