// The only door to the kernels: declarations without CUDA syntax.
// Stream: every launch is asynchronous on the given stream and waits for nothing. Errors: CudaError from the launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/views.hpp"

namespace spmm::kernels {

// ---- parse_records.cu

/// Splits raw records [first, first + count) into keys and packed elements, each block transposed where asked.
/// Shapes: raw [count * record bytes], 8-byte aligned, less than 2^32 bytes; keys [first + count], values
/// [first + count, m, m], device.
/// Values: key = block row << key_bits | block column. *first_bad is lowered to the number of the first
/// record with an index >= nb. *max_element is raised to the largest element.
void launch_parse_records(const std::byte* raw, std::uint64_t first, std::uint64_t count, std::uint32_t m,
                          bool transpose, std::uint32_t nb, unsigned key_bits, std::uint64_t* keys,
                          std::uint16_t* values, unsigned long long* first_bad, std::uint32_t* max_element,
                          cudaStream_t stream);

// ---- build_csr.cu

/// Scratch bytes that suffice for every call of this file on up to `count` blocks.
std::size_t build_workspace_bytes(std::uint64_t count);

/// numbers[x] = x.
void launch_number(std::uint32_t* numbers, std::uint64_t count, cudaStream_t stream);

/// Sorts keys, and record numbers with them, by the low 2 * key_bits bits; stable.
void launch_sort_blocks(SortBuffers<std::uint64_t>& keys, SortBuffers<std::uint32_t>& numbers, std::uint64_t count,
                        unsigned key_bits, Workspace work, cudaStream_t stream);

/// *first_duplicate is lowered to the first position whose key equals the one before.
void launch_find_duplicate(const std::uint64_t* keys, std::uint64_t count, unsigned long long* first_duplicate,
                           cudaStream_t stream);

/// Compresses sorted keys into lines; offsets[num_rows] is not written.
/// Shapes: offsets [min(count, nb) + 1], num_rows [1], device.
void launch_row_offsets(const std::uint64_t* keys, std::uint64_t count, unsigned key_bits, std::uint32_t* offsets,
                        std::uint32_t* num_rows, Workspace work, cudaStream_t stream);

/// Line numbers from the first key of each line; writes the closing offset too.
void launch_row_ids(const std::uint64_t* keys, std::uint64_t count, unsigned key_bits, std::uint32_t num_rows,
                    std::uint32_t* offsets, std::uint32_t* lines, cudaStream_t stream);

/// inner[x] = low key_bits of keys[x].
void launch_take_columns(const std::uint64_t* keys, std::uint64_t count, unsigned key_bits, std::uint32_t* inner,
                         cudaStream_t stream);

/// Exchanges the two coordinates of each key.
void launch_swap_keys(std::uint64_t* keys, std::uint64_t count, unsigned key_bits, cudaStream_t stream);

/// out[p] = block number numbers[p] of values. Shapes: values and out [count, m, m], device.
void launch_gather_blocks(const std::uint16_t* values, const std::uint32_t* numbers, std::uint64_t count,
                          std::uint32_t m, std::uint16_t* out, cudaStream_t stream);

/// out[x] = outer[inner[x]].
void launch_compose(const std::uint32_t* outer, const std::uint32_t* inner, std::uint64_t count, std::uint32_t* out,
                    cudaStream_t stream);

/// slots[x] = slot of line number wanted[x], kNoRow where that line holds no block. In place is allowed.
void launch_find_row_index(const std::uint32_t* wanted, std::uint64_t count, CompressedView index, std::uint32_t* slots,
                           cudaStream_t stream);

// ---- count_pairs.cu

std::size_t count_workspace_bytes(std::uint64_t count);

/// pair_offsets[p] = pairs of A's blocks before p. Shapes: b_row_index [count], pair_offsets [count + 1], device.
void launch_pair_offsets(const std::uint32_t* b_row_index, std::uint64_t count, CompressedView b_rows,
                         std::uint64_t* pair_offsets, Workspace work, cudaStream_t stream);

/// row_offsets[x] = pairs of A's lines before line x * stride, the last entry all of them; *max_row_pairs = pairs of
/// the longest row.
/// Shapes: row_offsets [ceil(num_rows / stride) + 1], max_row_pairs [1], device.
void launch_row_pair_offsets(CompressedView a, const std::uint64_t* pair_offsets, std::uint32_t stride,
                             std::uint64_t* row_offsets, std::uint64_t* max_row_pairs, cudaStream_t stream);

// ---- list_c_blocks.cu

std::size_t list_c_blocks_workspace_bytes(std::uint64_t max_pairs);

/// Everything needed to expand A's blocks into pairs.
struct ExpandView {
  CompressedView a;
  CompressedView b_rows;                        // block-CSR of B; inner holds what C blocks call columns
  const std::uint32_t* b_row_index = nullptr;   // [nnzb of A], device
  const std::uint64_t* pair_offsets = nullptr;  // [nnzb of A + 1], device
  const std::uint32_t* a_numbers = nullptr;     // [nnzb], device: where the elements of each block lie; null = in order
  const std::uint32_t* b_numbers = nullptr;
};

/// Lists the distinct C blocks that have pairs, for A's line slots [row_begin, row_begin + num_rows).
/// Shapes: keys: two buffers [num_pairs]; unique_keys [num_pairs], num_unique [1], device.
void launch_list_c_blocks(const ExpandView& view, std::uint32_t row_begin, std::uint32_t num_rows,
                          std::uint64_t first_pair, std::uint64_t num_pairs, unsigned column_bits,
                          SortBuffers<std::uint64_t>& keys, std::uint64_t* unique_keys, std::uint32_t* num_unique,
                          Workspace work, cudaStream_t stream);

std::size_t list_pairs_workspace_bytes(std::uint64_t max_pairs);

/// Arrays of launch_list_pairs.
struct PairListBuffers {
  SortBuffers<std::uint64_t> keys;             // [num_pairs] each
  SortBuffers<BlockPair> pairs;                // [num_pairs] each
  std::uint64_t* c_block_keys = nullptr;       // [num_pairs]
  std::uint32_t* offsets = nullptr;            // [num_pairs + 1]
  std::uint32_t* num_c_blocks = nullptr;       // [1], device
  std::uint32_t* host_num_c_blocks = nullptr;  // [1], pinned: a copy would queue behind results on their way out
};

/// Sorts the pairs of A's line slots [row_begin, row_begin + num_rows) by C block. Afterwards pairs.front() holds them,
/// offsets where each C block's pairs begin (the closing offset is written too), c_block_keys the C blocks as in
/// CBlocksView.
void launch_list_pairs(const ExpandView& view, std::uint32_t row_begin, std::uint32_t num_rows,
                       std::uint64_t first_pair, std::uint64_t num_pairs, unsigned column_bits,
                       PairListBuffers& buffers, Workspace work, cudaStream_t stream);

// ---- list_short_rows.cu

/// Most pairs of a row that launch_list_short_rows takes.
inline constexpr std::uint64_t kMaxShortRowPairs = 1024;

/// Scratch bytes of launch_list_short_rows; max_row_pairs as there.
std::size_t list_short_rows_workspace_bytes(std::uint64_t num_pairs, std::uint64_t max_row_pairs);

/// The same as launch_list_pairs where every row is light. Leaves buffers.keys alone and needs buffers.pairs.front()
/// only; work 8-byte aligned.
/// Values: no row has more than max_row_pairs pairs; max_row_pairs <= kMaxShortRowPairs; num_pairs < 2^32.
void launch_list_short_rows(const ExpandView& view, std::uint32_t row_begin, std::uint32_t num_rows,
                            std::uint64_t first_pair, std::uint64_t num_pairs, std::uint64_t max_row_pairs,
                            unsigned column_bits, PairListBuffers& buffers, Workspace work, cudaStream_t stream);

// ---- split_k.cu

std::size_t find_split_k_workspace_bytes(std::uint64_t max_c_blocks);

/// Finds the C blocks with more than kSplitKPairs pairs: writes found.C blocks and found.count.
void launch_find_split_k(const PairListView& list, const SplitKView& found, Workspace work, cudaStream_t stream);

/// Multiplies all pairs of the C blocks found and adds them up: writes found.sums.
/// Shapes: values [nnzb, m, m], device, as the pairs number them; B transposed within the block.
/// Values: num_pairs = all pairs of the list, less than 2^32.
void launch_add_split_k(const std::uint16_t* a_values, const std::uint16_t* b_values, const PairListView& list,
                        std::uint64_t num_pairs, std::uint32_t m, const SplitKView& found, cudaStream_t stream);

// ---- find_zeros.cu

/// *found = 1 if a block of A has a column of zeros or a block of B is zero, else 0: then no product of two is zero.
/// Shapes: values [num_a, m, m] and [num_b, m, m], found [1], device.
void launch_find_zeros(const std::uint16_t* a_values, std::uint64_t num_a, const std::uint16_t* b_values,
                       std::uint64_t num_b, std::uint32_t m, std::uint32_t* found, cudaStream_t stream);

// ---- expand_planes.cu

/// Which blocks come to byte planes: lines [first_row, first_row + num_rows).
/// Layout: along_row (A by rows): element row = row of the block, K along the line. Otherwise (B by rows, blocks
/// transposed): element row = column of the block, K across the lines; only blocks in [first_column, end_column).
struct PlaneRange {
  bool along_row = true;
  std::uint32_t first_row = 0;
  std::uint32_t num_rows = 0;
  std::uint32_t first_column = 0;
  std::uint32_t end_column = 0;
};

/// Clears byte planes and writes blocks into them.
void launch_expand_planes(const OperandView& operand, const PlaneRange& range, std::uint32_t m,
                          const BytePlanes& planes, cudaStream_t stream);

// ---- mul_*.cu

/// One CTA per C block; merges the two sorted lists of a C block and multiplies matching blocks.
void launch_mul_two_pointer(const OperandView& a, const OperandView& b, const CBlocksView& c_blocks, std::uint32_t m,
                            const CBlockResults& results, cudaStream_t stream);

/// One CTA per C block; searches each block of A's row in B's column.
void launch_mul_binary_search(const OperandView& a, const OperandView& b, const CBlocksView& c_blocks, std::uint32_t m,
                              const CBlockResults& results, cudaStream_t stream);

/// One CTA, one C block: multiplies the listed pairs.
/// Shapes: pairs [num_pairs] of {block of A, block of B}, readable by the device.
void launch_mul_host_pairs(const OperandView& a, const OperandView& b, const BlockPair* pairs, std::uint32_t num_pairs,
                           std::uint64_t c_block, std::uint32_t m, const CBlockResults& results, cudaStream_t stream);

/// A CTA per some C blocks: multiplies the pairs listed for each and writes records. The sums of long lists are taken
/// from the view, where it is not empty. Shapes: values [nnzb, m, m], device, as the pairs number them; B transposed
/// within the block. Values: max_element = largest element of both operands; can_be_zero = false where
/// launch_find_zeros found nothing.
void launch_mul_esc(const std::uint16_t* a_values, const std::uint16_t* b_values, const PairListView& list,
                    const SplitKView& split_k, const CBlocksView& c_blocks, std::uint32_t m, std::uint32_t max_element,
                    bool can_be_zero, const RecordOutput& out, cudaStream_t stream);

/// A CTA per block row and stretch of columns, sums in shared memory; writes records. Visits every C block of the panel
/// (C blocks.keys null). B by rows, blocks transposed; C blocks count block columns.
/// Shapes: b_row_index [nnzb of A], device.
/// Values: max_element = largest element of both operands; rows whose sums cannot leave 32 bits skip the checks.
void launch_mul_gustavson(const OperandView& a, const OperandView& b, const std::uint32_t* b_row_index,
                          const CBlocksView& c_blocks, std::uint32_t m, std::uint32_t max_element,
                          const RecordOutput& out, cudaStream_t stream);

/// True if a device of this compute capability can run launch_mul_dense_tensor.
bool has_dense_tensor(int major, int minor);

/// Where a dense product goes: some block columns of a panel of whole block rows. non_zero must be cleared; null = not
/// wanted. With m = 1 the result is a plain row-major matrix.
struct DenseTarget {
  std::uint32_t num_rows = 0;     // elements
  std::uint32_t num_columns = 0;  // elements
  std::uint32_t m = 0;
  std::uint32_t first_block_column = 0;  // block column of the panel where num_columns begin
  std::uint32_t num_block_columns = 0;   // block columns of the panel
  CBlockResults results;
};

/// What is known to be saturated, and written, before a dense product begins.
struct SaturatedTiles {
  std::uint8_t* done = nullptr;       // [num_prefilter_tiles], device: 1 where a C block is; null = nothing is known
  std::uint32_t* num_left = nullptr;  // [1], device: C blocks that are not
};

/// C blocks that launch_saturation_prefilter looks at. Shapes: rows and columns in elements.
std::uint64_t num_prefilter_tiles(std::uint32_t num_rows, std::uint32_t num_columns);

/// Multiplies the high bytes alone, which bounds the products from below with a quarter of the work, and fills the
/// C blocks in which every element is saturated by that. Shapes: a [num_rows elements], b [num_columns elements], of
/// the target; one or two planes, of the same shift.
void launch_saturation_prefilter(const BytePlanes& a, const BytePlanes& b, const DenseTarget& target,
                                 const SaturatedTiles& saturated, cudaStream_t stream);

/// Dense product of byte planes on integer tensor cores, K in segments whose sums fit 32 bits. Fills the C blocks that
/// are not saturated yet. Shapes: as above; two planes, or one of shift 0.
void launch_mul_dense_tensor(const BytePlanes& a, const BytePlanes& b, const DenseTarget& target,
                             const SaturatedTiles& saturated, cudaStream_t stream);

// ---- compact.cu

std::size_t compact_workspace_bytes(std::uint64_t max_c_blocks);

/// positions[x] = non-zero C blocks before x; *num_blocks = their number.
/// Shapes: positions [num_c_blocks], num_blocks [1] (device, or host memory the device can write).
void launch_positions(const std::uint8_t* non_zero, std::uint64_t num_c_blocks, std::uint32_t* positions,
                      std::uint32_t* num_blocks, Workspace work, cudaStream_t stream);

/// Packs the non-zero C blocks into output records {i, j, values}.
/// Shapes: rows [slots of A's lines], columns [slots of B's lines] or null where C blocks count block columns; records
/// [num_blocks * record bytes]; all device.
void launch_pack_records(const std::uint32_t* rows, const std::uint32_t* columns, const CBlocksView& c_blocks,
                         const CBlockResults& results, const std::uint32_t* positions, std::uint32_t m,
                         std::uint32_t* records, cudaStream_t stream);

}  // namespace spmm::kernels
