// Out of core: into how many slabs the operands are cut. Pure functions.
#pragma once

#include "plan/execution.hpp"
#include "plan/memory/streamed_rows.hpp"

namespace spmm::plan {

/// How the product of two slabs would run.
using DecideSlab = Execution (*)(const Problem& slabs);

/// The division with the least predicted time in which the largest product of two slabs fits; refused where none does.
/// Values: one slab of B: each slab of A is multiplied by the block rows of B that it meets. Several slabs of B keep
/// the results of one slab of A until they are merged: half of the host's limit.
Execution decide_slabs(const Problem& whole, DecideSlab decide_slab);

/// Host bytes of the lists of records that slabs need: several slabs of B; or one, of which each slab of A reads a
/// part.
std::uint64_t slab_list_bytes(const MatrixHeader& a, const MatrixHeader& b);
std::uint64_t needed_list_bytes(const MatrixHeader& a, const MatrixHeader& b);

/// Block rows of A that are streamed together.
inline constexpr std::uint32_t kMostStreamedRows = 1024;

/// Host bytes in addition to two slabs that are read from a scratch file: tables of groups of B's block rows, ranges of
/// records that are read for a slab, streamed rows, read buffers.
std::uint64_t sorted_list_bytes(std::uint32_t num_row_groups, const SlabCaps& caps, const Limits& limits);

/// Ranges of records of B that those bytes allow for.
std::uint64_t most_record_ranges(std::uint32_t num_row_groups, const SlabCaps& caps);

/// Bytes of one read of sorted operands: a small part of the limit, or slabs had no room within small ones.
std::uint64_t sorted_read_bytes(std::uint64_t limit_bytes);

/// What rows that are streamed may take. Values: limits = of a slab, limit_bytes = of the whole product.
StreamedRowsLimits streamed_rows_limits(const Limits& limits, std::uint64_t limit_bytes);

/// Groups of block rows of B in which slabs of A find what they need: rows, unless their tables took more memory than
/// lists of B's records.
std::uint64_t num_row_groups(const MatrixHeader& b);

/// Slabs end at the boundaries of so many buckets of block rows or columns.
inline constexpr std::uint32_t kNumBuckets = 1u << 16;

}  // namespace spmm::plan
