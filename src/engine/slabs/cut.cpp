// Buckets of rows and columns, and slabs and ranges made of them.
#include "engine/slabs/cut.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/run/cancellable.hpp"
#include "engine/slabs/index_pass.hpp"

namespace spmm::slabs {

AlignedArray<std::uint16_t> buckets_of(const Source& source, Along along, const Run& run) {
  const std::uint64_t nb = source.header().blocks_per_side();
  AlignedArray<std::uint16_t> buckets(source.header().num_blocks);
  for_indices(source, run, [&](std::uint64_t record, BlockIndex at) {
    buckets[record] = static_cast<std::uint16_t>(std::uint64_t{along == Along::rows ? at.i : at.j} * kNumBuckets / nb);
  });
  return buckets;
}

std::vector<std::uint64_t> count_buckets(const AlignedArray<std::uint16_t>& buckets, const Run& run) {
  std::vector<std::uint64_t> counts(kNumBuckets, 0);
  for_ranges(run, buckets.size(), [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t r = begin; r < end; ++r) ++counts[buckets[r]];
  });
  return counts;
}

std::vector<Slab> cut_slabs(const std::vector<std::uint64_t>& counts, std::uint32_t begin, std::uint32_t end,
                            std::uint32_t num_slabs) {
  std::uint64_t left = std::accumulate(counts.begin() + begin, counts.begin() + end, std::uint64_t{0});
  if (left == 0) return {{.begin = begin, .end = end, .num_blocks = 0}};
  std::vector<Slab> slabs;
  std::uint32_t at = begin;
  for (std::uint32_t remaining = num_slabs; left > 0; --remaining) {
    Slab slab{.begin = at, .end = at, .num_blocks = 0};
    const std::uint64_t share = (left + remaining - 1) / remaining;
    // A bucket that would pass the share opens the next slab: two buckets with blocks are always parted.
    while (slab.end < end && (remaining == 1 || slab.num_blocks == 0 || slab.num_blocks + counts[slab.end] <= share)) {
      slab.num_blocks += counts[slab.end++];
    }
    left -= slab.num_blocks;
    at = slab.end;
    slabs.push_back(slab);
  }
  return slabs;
}

std::uint64_t largest(const std::vector<Slab>& slabs) {
  std::uint64_t most = 0;
  for (const Slab& slab : slabs) most = std::max(most, slab.num_blocks);
  return most;
}

}  // namespace spmm::slabs
