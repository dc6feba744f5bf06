// Which block rows of B the slabs of A need, where B is not cut along its columns: found from the indices alone.
#pragma once

#include <cstdint>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "base/run/run.hpp"
#include "engine/slabs/cut.hpp"
#include "spmm/stream.hpp"

namespace spmm::slabs {

/// What slabs are cut by. Memory: 6 bytes per record.
struct ListsOfA {
  AlignedArray<std::uint16_t> buckets;  ///< of the block row of each record
  AlignedArray<std::uint32_t> groups;   ///< of the block rows of B that its block column meets
};

/// Errors: as buckets_of().
ListsOfA lists_of_a(const Source& a, std::uint64_t num_groups, const Run& run);

/// Blocks of B. Memory: 4 bytes per group, 8 per bucket.
struct CountsOfB {
  std::vector<std::uint64_t> of_columns;  ///< [kNumBuckets] of block columns
  AlignedArray<std::uint32_t> of_groups;  ///< [num_groups] of block rows
};

/// Errors: as buckets_of().
CountsOfB count_b(const Source& b, std::uint64_t num_groups, const Run& run);

/// The group of block rows of every record of B. Memory: 4 bytes per record. Errors: as buckets_of().
AlignedArray<std::uint32_t> groups_of(const Source& b, std::uint64_t num_groups, const Run& run);

/// For each division of A, the groups that its slabs read. Every group with blocks belongs to at least one slab, so
/// that every record of B is checked for duplicates: groups that no block of A meets are dealt out to the slabs with
/// the least.
struct NeededRows {
  AlignedArray<std::uint64_t> slabs;      ///< [num_groups] bit s: slab s reads it
  std::vector<std::uint64_t> num_blocks;  ///< of B, for each slab
};

/// Values: at most 64 slabs. Memory: 8 bytes per group. Errors: Interrupted.
NeededRows needed_rows(const ListsOfA& a, const CountsOfB& b, const std::vector<Slab>& slabs_of_a, const Run& run);

/// The records of B that a slab reads, ascending. Memory: 4 bytes for each of them. Errors: Interrupted; FormatError
/// where `groups` are of another reading than `needed` and the file has changed in between.
AlignedArray<std::uint32_t> needed_records(const Source& b, const NeededRows& needed, std::uint32_t slab,
                                           const AlignedArray<std::uint32_t>& groups, const Run& run);

}  // namespace spmm::slabs
