// The door to blocks: records to operands, counts, lists, and records again. Declarations without CUDA syntax.
// Stream: every launch is asynchronous on the given stream and waits for nothing.
// Errors: CudaError from the launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/views.hpp"

namespace spmm::kernels {

// ---- parse_records.cu

/// Successive raw records of one matrix.
/// Shapes: data [count * record bytes], device, 8-byte aligned, less than 2^32 bytes.
struct RawRecordsView {
  const std::byte* data = nullptr;
  std::uint64_t first = 0;  // number of the first record
  std::uint64_t count = 0;
  std::uint32_t m = 0;
  std::uint32_t nb = 0;
  unsigned key_bits = 0;
  bool transpose = false;  // each block on its way
};

/// Where records are parsed to; everything is indexed by record number.
struct ParsedView {
  std::uint64_t* keys = nullptr;            // [first + count], device: block row << key_bits | block column
  std::uint16_t* values = nullptr;          // [first + count, m, m], device
  unsigned long long* first_bad = nullptr;  // [1], device: lowered to the first record with an index >= nb
  std::uint32_t* max_element = nullptr;     // [1], device: raised to the largest element
  std::uint32_t* has_zeros = nullptr;       // [1], device: if parsing_finds_zeros, set to 1 if a block has a column of
                                            // zeros or, transposed, nothing else: what launch_find_zeros looks for
};

/// Whether has_zeros is of use.
bool parsing_finds_zeros(std::uint32_t m);

/// Splits raw records into keys and packed elements.
void launch_parse_records(const RawRecordsView& raw, const ParsedView& parsed, cudaStream_t stream);

// ---- build_csr.cu

/// Scratch bytes that suffice for every call of this file on up to `count` blocks.
std::size_t build_workspace_bytes(std::uint64_t count);

/// numbers[x] = x.
void launch_number(std::uint32_t* numbers, std::uint64_t count, cudaStream_t stream);

/// Sorts keys, and record numbers with them, by their 2 * key_bits bits; stable.
void launch_sort_blocks(SortBuffers<std::uint64_t>& keys, SortBuffers<std::uint32_t>& numbers, std::uint64_t count,
                        unsigned key_bits, Workspace work, cudaStream_t stream);

/// Keys of a matrix, ascending: block row << key_bits | block column.
struct SortedKeysView {
  const std::uint64_t* keys = nullptr;  // [count], device
  std::uint64_t count = 0;
  unsigned key_bits = 0;
};

/// *first_duplicate is lowered to the first position whose key equals the one before.
void launch_find_duplicate(const SortedKeysView& sorted, unsigned long long* first_duplicate, cudaStream_t stream);

/// Compresses sorted keys into rows; offsets[num_rows] is not written.
/// Shapes: offsets [min(count, nb) + 1], num_rows [1], device.
void launch_row_offsets(const SortedKeysView& sorted, std::uint32_t* offsets, std::uint32_t* num_rows, Workspace work,
                        cudaStream_t stream);

/// rows[x] = block row of row index x, from the first key of each row; writes the closing offset too.
void launch_row_ids(const SortedKeysView& sorted, std::uint32_t num_rows, std::uint32_t* offsets, std::uint32_t* rows,
                    cudaStream_t stream);

/// columns[x] = block column of keys[x].
void launch_take_columns(const SortedKeysView& sorted, std::uint32_t* columns, cudaStream_t stream);

/// Exchanges the two coordinates of each key.
void launch_swap_keys(std::uint64_t* keys, std::uint64_t count, unsigned key_bits, cudaStream_t stream);

/// out[p] = block number numbers[p] of values. found: [1], device; if it says that the matrix is not sorted, nothing
/// is done.
/// Shapes: values and out [count, m, m], device.
void launch_gather_blocks(const std::uint16_t* values, const std::uint32_t* numbers, std::uint64_t count,
                          std::uint32_t m, std::uint16_t* out, cudaStream_t stream,
                          const SortFindings* found = nullptr);

/// The same with zeros behind the rows and columns of each block.
/// Shapes: out [count, P, P], P = padded_side(m), 8-byte aligned.
void launch_gather_padded(const std::uint16_t* values, const std::uint32_t* numbers, std::uint64_t count,
                          std::uint32_t m, std::uint16_t* out, cudaStream_t stream,
                          const SortFindings* found = nullptr);

/// out[x] = outer[inner[x]].
void launch_compose(const std::uint32_t* outer, const std::uint32_t* inner, std::uint64_t count, std::uint32_t* out,
                    cudaStream_t stream);

/// row_index[x] = row index of block row wanted[x], kNoRow if that row is empty. row_index may be wanted itself.
void launch_find_row_index(const std::uint32_t* wanted, std::uint64_t count, CompressedView index,
                           std::uint32_t* row_index, cudaStream_t stream);

/// The same by a table of all block rows; row_index may not be wanted.
/// Shapes: table [nb], device, scratch.
void launch_look_up_row_index(const std::uint32_t* wanted, std::uint64_t count, CompressedView index, std::uint32_t nb,
                              std::uint32_t* table, std::uint32_t* row_index, cudaStream_t stream);

// ---- count_pairs.cu

std::size_t count_workspace_bytes(std::uint64_t count);

/// pair_offsets[p] = pairs of A's blocks before p.
/// Shapes: b_row_index [count], pair_offsets [count + 1], device.
void launch_pair_offsets(const std::uint32_t* b_row_index, std::uint64_t count, CompressedView b_rows,
                         std::uint64_t* pair_offsets, Workspace work, cudaStream_t stream);

/// row_offsets[x] = pairs of A's rows before row x * stride, the last entry all of them; *totals but for columns_end,
/// which is cleared.
/// Shapes: row_offsets [ceil(num_rows / stride) + 1], totals [1], device.
void launch_row_pair_offsets(CompressedView a, const std::uint64_t* pair_offsets, std::uint32_t stride,
                             std::uint64_t* row_offsets, MatchTotals* totals, cudaStream_t stream);

/// What launch_match_rows looks up. Shapes: device.
struct RowMatch {
  CompressedView a;  // num_rows: at most
  CompressedView b;
  std::uint64_t num_a_blocks = 0;
  const SortFindings* a_found = nullptr;     // [1]; if either matrix is not sorted, nothing is done
  const SortFindings* b_found = nullptr;     // [1]
  const std::uint64_t* b_borders = nullptr;  // [nb + 1], of B's rows, as launch_sort_rows writes them
  std::uint32_t* b_row_index = nullptr;      // [blocks of A]
  std::uint64_t* row_pairs = nullptr;        // [a.num_rows], scratch
  std::uint64_t* row_offsets = nullptr;      // [a.num_rows + 1], scratch, if a.num_rows > max_runs
  std::uint32_t max_runs = 0;
  MatchTotals* totals = nullptr;         // [1], zeros before
  std::uint64_t* run_offsets = nullptr;  // [min(a.num_rows, max_runs) + 1]: pairs before each run of run_stride() rows
                                         // of A, and all of them
  Workspace work;                        // match_workspace_bytes(a.num_rows, max_runs)
};

/// Scratch bytes of launch_match_rows.
std::size_t match_workspace_bytes(std::uint32_t most_rows, std::uint32_t max_runs);

/// As launch_row_pair_offsets and launch_columns_end, without offsets of blocks: looks up the row index in B of each
/// block of A. How many rows there are need not be known to the host.
void launch_match_rows(const RowMatch& match, cudaStream_t stream);

// ---- list_c_blocks.cu: ESC's expansion, sort and compression

/// Everything needed to expand A's blocks into pairs.
struct ExpandView {
  CompressedView a;
  CompressedView b_rows;                        // B by rows; columns as C blocks name them
  const std::uint32_t* b_row_index = nullptr;   // [nnzb of A], device
  const std::uint64_t* pair_offsets = nullptr;  // [nnzb of A + 1], device
  const std::uint32_t* a_numbers = nullptr;     // [nnzb], device: where the elements of each block lie; null = in order
  const std::uint32_t* b_numbers = nullptr;
};

/// The pairs of one row panel: A's row indices [row_begin, row_begin + num_rows).
struct PanelPairs {
  std::uint32_t row_begin = 0;
  std::uint32_t num_rows = 0;
  std::uint64_t first_pair = 0;
  std::uint64_t num_pairs = 0;  // not 0, less than 2^32
  unsigned column_bits = 0;     // of the keys of C blocks
};

/// Arrays of launch_list_c_blocks.
struct CBlockListBuffers {
  SortBuffers<std::uint64_t> keys;        // [num_pairs] each
  std::uint64_t* c_block_keys = nullptr;  // [num_pairs]
  std::uint32_t* num_c_blocks = nullptr;  // [1], device
};

std::size_t list_c_blocks_workspace_bytes(std::uint64_t max_pairs);

/// Lists the C blocks that have pairs: c_block_keys as in CBlocksView.
void launch_list_c_blocks(const ExpandView& view, const PanelPairs& panel, CBlockListBuffers& buffers, Workspace work,
                          cudaStream_t stream);

/// Arrays of launch_list_pairs.
struct PairListBuffers {
  SortBuffers<std::uint64_t> keys;             // [num_pairs] each
  SortBuffers<BlockPair> pairs;                // [num_pairs] each
  std::uint64_t* c_block_keys = nullptr;       // [num_pairs]
  std::uint32_t* offsets = nullptr;            // [num_pairs + 1]
  std::uint32_t* num_c_blocks = nullptr;       // [1], device
  std::uint32_t* host_num_c_blocks = nullptr;  // [1], pinned: a copy would queue behind results on their way out
};

std::size_t list_pairs_workspace_bytes(std::uint64_t max_pairs);

/// Sorts the pairs of a panel by C block. Afterwards pairs.front() holds them, offsets where each C block's pairs begin
/// (the closing offset is written too), c_block_keys the C blocks as in CBlocksView.
void launch_list_pairs(const ExpandView& view, const PanelPairs& panel, PairListBuffers& buffers, Workspace work,
                       cudaStream_t stream);

// ---- list_short_rows.cu

/// Most pairs of a row that launch_list_short_rows takes: half of what a CTA sorts.
inline constexpr std::uint64_t kMaxShortRowPairs = 1024;

/// Scratch bytes of launch_list_short_rows; max_row_pairs as there.
std::size_t list_short_rows_workspace_bytes(std::uint64_t num_pairs, std::uint64_t max_row_pairs);

/// The same as launch_list_pairs if no row has more than max_row_pairs pairs. Leaves buffers.keys alone and needs
/// buffers.pairs.front() only.
/// Values: max_row_pairs <= kMaxShortRowPairs; work is 8-byte aligned.
void launch_list_short_rows(const ExpandView& view, const PanelPairs& panel, std::uint64_t max_row_pairs,
                            PairListBuffers& buffers, Workspace work, cudaStream_t stream);

// ---- find_zeros.cu

/// *found = 1 if a block of A has a column of zeros or a block of B is zero, else 0: then no product of two is zero.
/// Shapes: a, b [count, side, side], of which columns and rows behind m are padding; found [1], device.
void launch_find_zeros(const BlocksView& a, const BlocksView& b, BlockShape shape, std::uint32_t* found,
                       cudaStream_t stream);

// ---- pack_records.cu

std::size_t compact_workspace_bytes(std::uint64_t max_c_blocks);

/// positions[x] = non-zero C blocks before x; *out.num_blocks = their number, with those of the panels before.
/// Shapes: positions [num_c_blocks], device.
void launch_positions(const std::uint8_t* non_zero, std::uint64_t num_c_blocks, std::uint32_t* positions,
                      const RecordOutput& out, Workspace work, cudaStream_t stream);

/// What names the columns of C blocks, and where their records go in the output.
struct RecordPacking {
  const std::uint32_t* columns = nullptr;       // [columns of B], device; null if C blocks name block columns
  const std::uint32_t* positions = nullptr;     // [num_c_blocks], device
  unsigned long long* num_saturated = nullptr;  // [1], device: raised by the elements that are kMaxVal; or null
};

/// Packs the non-zero C blocks into output records {i, j, values}. Shapes: out.look_back is not used.
void launch_pack_records(const CBlocksView& c_blocks, const CBlockResults& results, std::uint32_t m,
                         const RecordPacking& packing, const RecordOutput& out, cudaStream_t stream);

// ---- count_saturated.cu

/// *num_saturated is raised by the elements of packed records that are kMaxVal.
/// Shapes: records [num_words], device, 8-byte aligned; num_saturated [1], device.
void launch_count_saturated(const std::uint32_t* records, std::uint64_t num_words, unsigned long long* num_saturated,
                            cudaStream_t stream);

}  // namespace spmm::kernels
