// Cuts a matrix into slabs of block rows or block columns with about equal numbers of blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "base/records/inputs.hpp"
#include "base/run/run.hpp"
#include "plan/partition.hpp"
#include "spmm/stream.hpp"

namespace spmm::slabs {

/// Slabs end at bucket boundaries; a bucket is nb / kNumBuckets block rows or columns, at least one.
inline constexpr std::uint32_t kNumBuckets = plan::kNumBuckets;

/// Whether a matrix is cut along its block rows (A) or its block columns (B).
enum class Along : std::uint8_t { rows, columns };

/// The bucket of every record of a matrix, ascending with its row or column.
/// Memory: 2 bytes per record, and kReadBytes per thread until it returns.
/// Errors: FormatError for the first record whose index is out of range; Interrupted; what the source throws.
AlignedArray<std::uint16_t> buckets_of(const Source& source, Along along, const Run& run);

/// Records per bucket. Shapes: [kNumBuckets]. Errors: Interrupted.
std::vector<std::uint64_t> count_buckets(const AlignedArray<std::uint16_t>& buckets, const Run& run);

/// A range of buckets.
struct Slab {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint64_t num_blocks = 0;
};

/// At most num_slabs slabs that hold all blocks of the buckets [begin, end), in order, none of them empty; a single
/// empty one if there are no blocks at all, so that the other operand is checked as it is in a product at once.
std::vector<Slab> cut_slabs(const std::vector<std::uint64_t>& counts, std::uint32_t begin, std::uint32_t end,
                            std::uint32_t num_slabs);

/// Blocks of the slab with the most.
std::uint64_t largest(const std::vector<Slab>& slabs);

}  // namespace spmm::slabs
