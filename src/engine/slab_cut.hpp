// Cuts a matrix into bands of block rows or block columns with about equal numbers of blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "base/run.hpp"
#include "plan/partition.hpp"
#include "spmm/stream.hpp"

namespace spmm::bands {

/// Bands end at bucket borders; a bucket is nb / kNumBuckets block rows or columns, at least one.
inline constexpr std::uint32_t kNumBuckets = plan::kNumBuckets;

/// Bytes of one read while records are picked: small, because every reader of every band has a buffer of its own and a
/// heap keeps what it has once given out.
inline constexpr std::uint64_t kReadBytes = 256u << 10;

/// Whether a matrix is cut along its block rows (A) or its block columns (B).
enum class Along : std::uint8_t { rows, columns };

/// The bucket of every record of a matrix, ascending with its row or column.
/// Memory: 2 bytes per record. Errors: FormatError if an index is out of range.
std::vector<std::uint16_t> buckets_of(const Source& source, Along along, const Run& run);

/// Records per bucket. Shapes: [kNumBuckets].
std::vector<std::uint64_t> count_buckets(const std::vector<std::uint16_t>& buckets);

/// A range of buckets.
struct Band {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint64_t num_blocks = 0;
};

/// At most num_bands bands that cover the buckets [begin, end) in order.
std::vector<Band> cut_bands(const std::vector<std::uint64_t>& counts, std::uint32_t begin, std::uint32_t end,
                            std::uint32_t num_bands);

/// Blocks of the band with the most.
std::uint64_t largest(const std::vector<Band>& bands);

/// Block row and block column of a packed record.
BlockIndex index_of(const std::byte* record);

}  // namespace spmm::bands
