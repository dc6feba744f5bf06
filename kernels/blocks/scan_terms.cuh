// What scans and selections of blocks read, and the scans that one or two CTAs do.
#pragma once

#include <cstdint>

#include "kernels/blocks/launch.hpp"

namespace spmm::kernels {

/// A row's share of the borders that sort_rows.cu scatters by: stored rows << 32 | blocks; 0 behind the last one.
struct StoredRow {
  const std::uint32_t* counts;
  std::uint64_t count;
  std::uint32_t stride;
  __host__ __device__ std::uint64_t operator()(std::uint64_t x) const {
    const std::uint32_t blocks = x < count ? counts[x * stride] : 0;
    return std::uint64_t{blocks != 0} << 32 | blocks;
  }
};

inline constexpr std::uint32_t kScanThreads = 1024;
inline constexpr std::uint32_t kScanItems = 4;  // of a thread
/// So many counts one CTA takes in less than two launches.
inline constexpr std::uint64_t kOneScanCounts = kScanThreads * kScanItems;

/// borders[x] = sum of counts(y), y < x, for x up to counts.count, by one CTA.
void launch_scan_counts(const StoredRow& counts, std::uint64_t* borders, cudaStream_t stream);

/// 1 if a sorted key opens a new row.
struct OpensRow {
  const std::uint64_t* keys;
  unsigned key_bits;
  __host__ __device__ bool operator()(std::uint64_t x) const {
    return x == 0 || keys[x] >> key_bits != keys[x - 1] >> key_bits;
  }
};

/// 1 if a sorted key differs from the one before.
struct OpensCBlock {
  const std::uint64_t* keys;
  __host__ __device__ bool operator()(std::uint64_t x) const { return x == 0 || keys[x] != keys[x - 1]; }
};

/// Pairs of one block of A; 0 behind the last one, so that the scan ends with the total.
struct PairsOfBlock {
  const std::uint32_t* b_row_index;
  const std::uint32_t* b_offsets;
  std::uint64_t count;
  __host__ __device__ std::uint64_t operator()(std::uint64_t p) const {
    if (p >= count || b_row_index[p] == kNoRow) return 0;
    return b_offsets[b_row_index[p] + 1] - b_offsets[b_row_index[p]];
  }
};

/// Pairs of one row of A; 0 behind the last one.
struct PairsOfRow {
  const std::uint64_t* row_pairs;
  const SortFindings* a_found;
  __host__ __device__ std::uint64_t operator()(std::uint64_t row) const {
    return row < a_found->num_rows ? row_pairs[row] : 0;
  }
};

/// 1 if a C block is not zero.
struct NonZeroBlock {
  const std::uint8_t* non_zero;
  __host__ __device__ std::uint32_t operator()(std::uint64_t x) const { return non_zero[x]; }
};

__device__ inline bool is_sound(const RowMatch& match) {
  return match.a_found->is_sorted() && match.b_found->is_sorted();
}

/// Adds up match.row_pairs, and writes the totals, by two CTAs.
void launch_total_row_pairs(const RowMatch& match, cudaStream_t stream);

__device__ inline unsigned long long blocks_of_row(const CompressedView& a, std::uint64_t row) {
  return a.offsets[row + 1] - a.offsets[row];
}

}  // namespace spmm::kernels
