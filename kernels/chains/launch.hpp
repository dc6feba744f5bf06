// The door to chains: products of all element types but u16 (include/spmm/chain.hpp). First the list of pairs, in the
// order of the chains, and the pattern of C, the same for all types; then the chains.
// Stream and errors as in every door: launches are asynchronous on the given stream, CudaError from the launch.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/blocks/arrays.hpp"
#include "kernels/blocks/launch.hpp"
#include "kernels/views.hpp"
#include "spmm/element_types.hpp"

namespace spmm::kernels {

/// In Link::a: the first pair of its C block, if that is not given. Operands have fewer blocks, lists fewer pairs.
inline constexpr std::uint32_t kFirstOfBlock = 0x8000'0000u;

/// A pair of blocks, by the numbers that the caller gave them.
struct alignas(8) Link {
  std::uint32_t a = 0;
  std::uint32_t b = 0;
};

// ---- list.cu

/// Rows with at most this many pairs are sorted by a warp.
inline constexpr std::uint32_t kSortedRowLinks = 384;

/// Shared memory of a warp that lists a piece. Values: not 0.
struct ListWindow {
  std::uint32_t words = 0;  // of the bitmap of its columns
  std::uint32_t ranks = 0;  // C blocks whose pairs are placed at a time
  std::uint32_t links = 0;  // pairs that are placed there; if there are more, they are placed in the list; may be 0
};

/// How rows are divided among warps.
struct ListTuning {
  std::uint32_t sorted_pairs = kSortedRowLinks;  // of a row that is not cut into pieces, at most
  std::uint32_t piece_pairs = 4096;              // a row has no more pieces than these go into its pairs, and one
  ListWindow window{.words = 1024, .ranks = 512, .links = 1088};
  std::uint32_t slots = 1024;  // of the table of a pattern's row: a power of two, twice the blocks or more

  /// Bound of the pieces of some rows.
  [[nodiscard]] std::uint64_t max_pieces(std::uint64_t num_rows, std::uint64_t num_pairs) const {
    return std::min(num_rows, num_pairs / (sorted_pairs + 1)) + num_pairs / piece_pairs;
  }
};

/// Some block columns of a row.
struct ListPiece {
  std::uint32_t row = 0;
  std::uint32_t column_begin = 0;
  std::uint32_t column_end = 0;
  std::uint32_t num_before = 0;  // pieces of the row, which lie before this one
  std::uint32_t is_row = 0;      // 1: it has all columns that the row meets
  std::uint32_t is_dense = 0;    // 1: the row has a pair for every few columns
  std::uint32_t first_link = 0;  // once it is listed
  std::uint32_t num_links = 0;   // the same
  std::uint32_t num_blocks = 0;  // the same: of C
};

/// What counting pairs finds; zeros before.
struct LinkTotals {
  std::uint32_t max_row_pairs = 0;
  std::uint32_t max_width = 0;  // block columns of a piece
  std::uint32_t num_pieces = 0;
};

/// Pairs of rows. Shapes: device.
struct RowLinks {
  std::uint32_t* num_pairs = nullptr;  // [rows of A]
  ListPiece* pieces = nullptr;         // [max_pieces()]
  LinkTotals* totals = nullptr;        // [1]
};

/// Counts the pairs of each row of A. Values: operands.pair_offsets is not used.
void launch_count_links(const RowProduct& operands, const RowLinks& rows, const ListTuning& tuning,
                        cudaStream_t stream);

std::size_t sums_workspace_bytes(std::uint64_t count);

/// sums[x] = counts[0] + ... + counts[x - 1]. Shapes: counts [count], sums [count + 1], device.
void launch_sum_counts(const std::uint32_t* counts, std::uint64_t count, std::uint32_t* sums, Workspace work,
                       cudaStream_t stream);

/// The list, and the pattern of C. Rows: those of A. Shapes: device.
struct LinkList {
  const std::uint32_t* row_links = nullptr;  // [rows + 1]: pairs before each row
  std::uint32_t* row_blocks = nullptr;       // [rows]: C blocks of each row
  const std::uint32_t* c_offsets = nullptr;  // [rows + 1]: C blocks before each row
  std::uint32_t* c_links = nullptr;          // [C blocks + 1]: pairs before each C block
  Link* links = nullptr;                     // [pairs + 1]
  std::uint32_t num_c_blocks = 0;            // once they are counted
};

/// Rows of A that are listed. Values: totals = what was counted, on the host.
struct RowsToList {
  RowProduct operands;
  std::uint32_t num_columns = 0;  // block columns of B
  ListPiece* pieces = nullptr;    // of RowLinks
  LinkTotals totals{};
  ListTuning tuning{};
};

/// Writes row_blocks, and links by the numbers that blocks have in sorted operands.
void launch_list_links(const RowsToList& rows, const LinkList& list, cudaStream_t stream);

/// Writes c_links, the block columns to c.indices, and the caller's numbers to links.
void launch_fill_blocks(const RowsToList& rows, const LinkList& list, const IndexArrays& c, cudaStream_t stream);

/// Writes c.indptr. Shapes: c_offsets [num_rows + 1], rows [num_rows]: block row of each row of the list, ascending;
/// device.
void launch_expand_offsets(const std::uint32_t* c_offsets, const std::uint32_t* rows, std::uint32_t num_rows,
                           const IndexArrays& c, cudaStream_t stream);

/// What reading a pattern finds; kNothingBad before.
struct PatternFindings {
  unsigned long long bad_row = ArrayFindings::kNothingBad;    // as ArrayFindings
  unsigned long long bad_index = ArrayFindings::kNothingBad;  // out of range, or not above the one before in its row
  std::uint32_t max_row_blocks = 0;
};

/// Index arrays of a caller in 32 bits, if nothing is bad. Values: keys and findings of `from` are not used.
/// Shapes: offsets [num_rows + 1], columns [num_blocks], findings [1], device.
void launch_read_pattern(const ArraysView& from, std::uint32_t* offsets, std::uint32_t* columns,
                         PatternFindings* findings, cudaStream_t stream);

/// The C blocks of a list that are given. Shapes: device; offsets [block rows + 1], columns [C blocks], ascending in
/// each row.
struct PatternView {
  const std::uint32_t* offsets = nullptr;
  const std::uint32_t* columns = nullptr;
  std::uint32_t max_row_blocks = 0;
  unsigned long long* num_pairs = nullptr;  // [1]: raised by the pairs of all C blocks
  unsigned long long* missing = nullptr;    // [1]: lowered to block row << 32 | block column of a pair that has no C
                                            // block; null: such pairs are left out
};

/// Counts the pairs of each C block of a pattern, or writes their links. Values: all rows are cut into pieces:
/// tuning.sorted_pairs = 0; or none is, and pieces are null. Shapes: c_links [C blocks], zeros, raised to the counts;
/// or, with links [pairs + 1], the pairs before each C block, which are read.
void launch_pattern_links(const RowsToList& rows, const PatternView& pattern, std::uint32_t* c_links, Link* links,
                          cudaStream_t stream);

// ---- f64.cu, f32.cu, half.cu, integers.cu; types.cu

/// A list that is multiplied.
struct ChainsView {
  const std::uint32_t* c_links = nullptr;  // [num_c_blocks + 1], device
  const Link* links = nullptr;             // [pairs + 1], device
  std::uint32_t num_c_blocks = 0;
  std::uint32_t num_rows = 0;  // of A, not 0
  std::uint32_t m = 1;
  bool is_given = false;       // the C blocks are: some may have no pairs, and links are not marked
  bool has_exact_mma = false;  // mma.sync of f64 gives the chain's bits on this device
  /// Streams are as long as leaves that many, and no longer than the kernel says: these fill the device twice.
  std::uint64_t num_warps = 132 * 64 * 2;
};

/// Shapes: a, b [blocks, m, m] in the order of the numbers, c [num_c_blocks, m, m], row-major, 16-byte aligned, device;
/// old as c, which it may be; alpha, beta [1], host, of the type of c.
struct ChainValues {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  const void* old = nullptr;    // not read if beta is 0
  const void* alpha = nullptr;  // null: 1
  const void* beta = nullptr;   // null: 0
};

/// C = alpha * A * B + beta * old for elements of type T: Scaling. Values: num_c_blocks is not 0.
template <class T>
void multiply_chains(const ChainsView& chains, const ChainValues& values, cudaStream_t stream);
template <>
void multiply_chains<double>(const ChainsView& chains, const ChainValues& values, cudaStream_t stream);

/// *largest is raised to the largest absolute value.
/// Shapes: values [count], largest [1], device. Values: type = of integers.
void launch_find_largest(ElementType type, const void* values, std::uint64_t count, unsigned long long* largest,
                         cudaStream_t stream);

/// C = alpha * A * B + beta * old.
void launch_multiply_chains(ElementType type, const ChainsView& chains, const ChainValues& values, cudaStream_t stream);

}  // namespace spmm::kernels
