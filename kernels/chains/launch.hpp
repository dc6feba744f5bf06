// The door to chains: products of all element types but u16 (include/spmm/chain.hpp). First the list of pairs, in the
// order of the chains, and the pattern of C, the same for all types; then the chains.
// Stream and errors as in every door: launches are asynchronous on the given stream, CudaError from the launch.
#pragma once

#include <cuda_runtime_api.h>

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

/// Shared memory for a piece of a row that is walked. Values: not 0.
struct ListWindow {
  std::uint32_t words = 0;  // of the bitmap of its columns
  std::uint32_t ranks = 0;  // C blocks whose pairs are placed at a time
};

/// How rows that are walked are divided: medium ones among warps, long ones among CTAs.
struct ListTuning {
  std::uint32_t sorted_pairs = kSortedRowLinks;  // of a row that is not in the list of medium ones, at most
  std::uint32_t medium_pairs = 4096;             // of a medium row, at most
  ListWindow medium_window{.words = 1024, .ranks = 1024};
  ListWindow long_window{.words = 4096, .ranks = 8192};
  std::uint32_t medium_slots = 1024;  // of the table of a pattern's row: a power of two, twice the blocks or more
  std::uint32_t long_slots = 8192;
};

/// What counting pairs finds; zeros before.
struct LinkTotals {
  unsigned long long num_pairs = 0;
  std::uint32_t max_row_pairs = 0;
  std::uint32_t max_span = 0;  // block columns from the first to the last of a row that is walked
  std::uint32_t num_medium = 0;
  std::uint32_t num_long = 0;
};

/// Pairs of rows. Shapes: device.
struct RowLinks {
  std::uint32_t* num_pairs = nullptr;  // [rows of A]
  std::uint32_t* walked = nullptr;     // [rows of A]: medium rows from the front, long ones from the back, in any order
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
  std::uint32_t* c_columns = nullptr;        // [C blocks], ascending in each row
  std::uint32_t* c_links = nullptr;          // [C blocks + 1]: pairs before each C block
  Link* links = nullptr;                     // [pairs + 1]
  std::uint32_t num_c_blocks = 0;            // once they are counted
};

/// What both passes over the rows need. Values: totals = what was counted, on the host.
struct RowsToList {
  RowProduct operands;
  std::uint32_t num_columns = 0;             // block columns of B
  const std::uint32_t* walked = nullptr;     // of RowLinks
  const std::uint32_t* num_pairs = nullptr;  // the same; null: no row is long
  LinkTotals totals{};
  ListTuning tuning{};
};

/// Writes row_blocks, and, out of order still, links of sorted rows.
void launch_count_c_blocks(const RowsToList& rows, const LinkList& list, cudaStream_t stream);

/// Writes c_columns, c_links and links.
void launch_fill_links(const RowsToList& rows, const LinkList& list, cudaStream_t stream);

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

/// Counts the pairs of each C block of a pattern, or writes their links. Values: only long rows are listed:
/// tuning.sorted_pairs = medium_pairs. Shapes: c_links [C blocks], zeros, raised to the counts; or, with links [pairs +
/// 1], the pairs before each C block, which are read.
void launch_pattern_links(const RowsToList& rows, const PatternView& pattern, std::uint32_t* c_links, Link* links,
                          cudaStream_t stream);

/// The pattern of C as index arrays. Shapes: rows [num_rows]: block row of each row of the list, ascending; device.
void launch_expand_indices(const LinkList& list, const std::uint32_t* rows, std::uint32_t num_rows,
                           const IndexArrays& to, cudaStream_t stream);

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
