// What scans and selections of blocks read.
#pragma once

#include <cstdint>

#include "kernels/views.hpp"

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

/// 1 if a sorted key opens a new row; without key bits, if it is another than the one before.
struct OpensRow {
  const std::uint64_t* keys;
  unsigned key_bits;
  __host__ __device__ bool operator()(std::uint64_t x) const {
    return x == 0 || keys[x] >> key_bits != keys[x - 1] >> key_bits;
  }
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

/// Numbers that were counted; 0 behind the last one.
struct CountOfRow {
  const std::uint32_t* counts;
  std::uint64_t count;
  __host__ __device__ std::uint32_t operator()(std::uint64_t row) const { return row < count ? counts[row] : 0; }
};

/// 1 if a C block is not zero.
struct NonZeroBlock {
  const std::uint8_t* non_zero;
  __host__ __device__ std::uint32_t operator()(std::uint64_t x) const { return non_zero[x]; }
};

}  // namespace spmm::kernels
