// The door to blocks: records to operands, counts, lists, and records again. Declarations without CUDA syntax.
// Stream: every launch is asynchronous on the given stream and waits for nothing.
// Errors: CudaError from the launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/tuning.hpp"
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
  std::uint32_t* has_zeros = nullptr;       // [1], device: set to 1 if a block has a column of zeros or, transposed,
                                            // nothing else: where neither is so, no product of two blocks is zero
};

/// Splits raw records into keys and packed elements.
void launch_parse_records(const RawRecordsView& raw, const ParsedView& parsed, cudaStream_t stream);

// ---- build_csr.cu

/// Scratch bytes that suffice for every call of this file on up to `count` blocks.
std::size_t build_workspace_bytes(std::uint64_t count);

/// Sorts keys of 2 * key_bits bits, and the numbers 0, 1, 2, ... with them; stable.
void launch_sort_blocks(SortBuffers<std::uint64_t>& keys, SortBuffers<std::uint32_t>& numbers, std::uint64_t count,
                        unsigned key_bits, Workspace work, cudaStream_t stream);

/// Keys of a matrix, ascending: block row << key_bits | block column.
struct SortedKeysView {
  const std::uint64_t* keys = nullptr;  // [count], device
  std::uint64_t count = 0;
  unsigned key_bits = 0;
};

/// Compressed rows that are written. Shapes: rows [min(count, nb)], offsets [min(count, nb) + 1], columns [count],
/// device.
struct CompressedArrays {
  std::uint32_t* rows = nullptr;
  std::uint32_t* offsets = nullptr;
  std::uint32_t* columns = nullptr;
};

/// Compresses sorted keys into rows: *num_rows of them. *first_duplicate is lowered to the first position whose key
/// equals the one before. Shapes: num_rows, first_duplicate [1], device.
void launch_compress_rows(const SortedKeysView& sorted, const CompressedArrays& to, std::uint32_t* num_rows,
                          unsigned long long* first_duplicate, Workspace work, cudaStream_t stream);

/// Exchanges the two coordinates of each key.
void launch_swap_keys(std::uint64_t* keys, std::uint64_t count, unsigned key_bits, cudaStream_t stream);

/// out[p] = block number numbers[p], with zeros behind its m rows and columns if shape.side is not m.
/// Shapes: blocks [count, m, m], out [count, side, side], device, 16-byte aligned.
void launch_gather_blocks(const BlocksView& blocks, const std::uint32_t* numbers, BlockShape shape, std::uint16_t* out,
                          cudaStream_t stream);

/// out[x] = outer[inner[x]].
void launch_compose(const std::uint32_t* outer, const std::uint32_t* inner, std::uint64_t count, std::uint32_t* out,
                    cudaStream_t stream);

/// row_index[x] = row index of block row wanted[x], kNoRow if that row is empty: by a table of all block rows, or, if
/// it has no room, by a search; then row_index may be wanted itself. Shapes: table [nb] or [0], device, scratch.
void launch_find_row_index(const std::uint32_t* wanted, std::uint64_t count, CompressedView index,
                           std::span<std::uint32_t> table, std::uint32_t* row_index, cudaStream_t stream);

// ---- sort_rows.cu

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

/// Sorts one or two matrices by row and column, and compresses their rows: what launch_sort_blocks and
/// launch_compress_rows do. Where a key comes twice, or, beyond kBitmapColumns block columns, a row has more than
/// kCountedRowBlocks blocks, only longest_row and has_duplicate are of use.
/// Values: fewer than 2^32 blocks together; scratch.work is 8-byte aligned.
void launch_sort_rows(std::span<const RowSort> sorts, const RowSortScratch& scratch, std::uint32_t nb,
                      unsigned key_bits, cudaStream_t stream);

// ---- count_pairs.cu

std::size_t count_workspace_bytes(std::uint64_t count);

/// pair_offsets[p] = pairs of A's blocks before p.
/// Shapes: b_row_index [count], pair_offsets [count + 1], device.
void launch_pair_offsets(const std::uint32_t* b_row_index, std::uint64_t count, CompressedView b_rows,
                         std::uint64_t* pair_offsets, Workspace work, cudaStream_t stream);

/// Rows whose pairs are counted. Shapes: device.
struct PairCount {
  CompressedView a;  // num_rows: at most, if findings are given
  CompressedView b;
  const SortFindings* a_found = nullptr;  // [1]: numbers of rows; if either matrix is not sorted, nothing is counted
  const SortFindings* b_found = nullptr;  // [1]; null like a_found: views have the numbers of rows
  std::uint64_t* pair_offsets = nullptr;  // [blocks of A + 1]: pairs before each block
  std::uint32_t max_runs = 0;
  MatchTotals* totals = nullptr;         // [1], zeros before
  std::uint64_t* run_offsets = nullptr;  // [min(a.num_rows, max_runs) + 1]: pairs before each run of run_stride() rows
                                         // of A, and all of them
};

/// Writes run_offsets and totals.
void launch_count_runs(const PairCount& count, cudaStream_t stream);

/// The same after pair_offsets, and the row index in B of each block of A. How many rows there are need not be known to
/// the host. Shapes: b_borders [nb + 1], of B's rows, as launch_sort_rows writes them; b_row_index [num_a_blocks]; work
/// of count_workspace_bytes(). Values: findings are given.
void launch_match_blocks(const PairCount& count, const std::uint64_t* b_borders, std::uint32_t* b_row_index,
                         std::uint64_t num_a_blocks, Workspace work, cudaStream_t stream);

/// As a copy would, but no copy engine is waited for: one that another stream keeps busy may leave a copy of four bytes
/// for when that stream has a pause (behind a panel of 1 GB: 20 ms).
/// Shapes: from [count], device; to [count], page-locked.
void launch_copy_to_host(const std::uint32_t* from, std::uint32_t count, std::uint32_t* to, cudaStream_t stream);

// ---- list_pairs.cu: ESC's expansion, sort and compression

/// The pairs of one row panel: A's row indices [row_begin, row_begin + num_rows).
struct PanelPairs {
  std::uint32_t row_begin = 0;
  std::uint32_t num_rows = 0;
  std::uint64_t first_pair = 0;
  std::uint64_t num_pairs = 0;  // not 0, less than 2^32
  unsigned column_bits = 0;     // of the keys of C blocks
};

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
void launch_list_pairs(const RowProduct& product, const PanelPairs& panel, PairListBuffers& buffers, Workspace work,
                       cudaStream_t stream);

// ---- list_short_rows.cu

/// Scratch bytes of launch_list_short_rows and launch_mul_short_rows; max_row_pairs as there.
std::size_t short_rows_workspace_bytes(std::uint64_t num_pairs, std::uint64_t max_row_pairs);

/// The same as launch_list_pairs if no row has more than max_row_pairs pairs. Leaves buffers.keys alone and needs
/// buffers.pairs.front() only.
/// Values: max_row_pairs <= kShortRowPairs; work is 8-byte aligned.
void launch_list_short_rows(const RowProduct& product, const PanelPairs& panel, std::uint64_t max_row_pairs,
                            PairListBuffers& buffers, Workspace work, cudaStream_t stream);

// ---- records.cu

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

/// Takes packed records apart. Shapes: records [num_records, 2 + m * m], heads [num_records, 2], values
/// [num_records, m, m]; device.
void launch_unpack_records(const std::uint32_t* records, std::uint64_t num_records, std::uint32_t m,
                           std::uint32_t* heads, std::uint32_t* values, cudaStream_t stream);

/// *num_saturated is raised by the elements of packed records, or elements alone, that are kMaxVal.
/// Shapes: words [num_words], 16-byte aligned; num_saturated [1]; device.
void launch_count_saturated(const std::uint32_t* words, std::uint64_t num_words, unsigned long long* num_saturated,
                            cudaStream_t stream);

}  // namespace spmm::kernels
