// Buckets of rows and columns, and slabs and ranges made of them.
#include "engine/slabs/cut.hpp"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <utility>

#include "base/run/cancellable.hpp"
#include "engine/slabs/index_pass.hpp"
#include "plan/panels/part_cut.hpp"

namespace spmm::slabs {

AlignedArray<std::uint16_t> buckets_of(const Source& source, Along along, const Run& run) {
  const std::uint64_t nb = source.header().blocks_per_side();
  AlignedArray<std::uint16_t> buckets(source.header().num_blocks);
  for_indices(source, run, [&](std::uint64_t record, BlockIndex at) {
    buckets[record] = static_cast<std::uint16_t>(std::uint64_t{along == Along::rows ? at.i : at.j} * kNumBuckets / nb);
  });
  return buckets;
}

std::vector<BlockRows> expected_ranges(const Inputs& inputs, std::uint32_t num_ranges, const Run& run) {
  const Source& a = inputs.a;
  const Source& b = inputs.b;
  constexpr std::uint64_t kMaxGroups = 1u << 18;  // of block rows of B, which are counted together
  const std::uint64_t nb = a.header().blocks_per_side();
  const std::uint64_t num_groups = std::min(nb, kMaxGroups);
  const auto group_of = [&](std::uint32_t row) { return row * num_groups / nb; };
  std::vector<std::atomic<std::uint64_t>> of_group(num_groups);
  constexpr std::uint64_t kMaxSample = 1u << 16;
  const std::uint64_t step = b.header().num_blocks / kMaxSample + 1;
  std::vector<std::uint32_t> columns(b.header().num_blocks / step + (b.header().num_blocks % step != 0 ? 1 : 0));
  for_indices(b, run, [&](std::uint64_t record, BlockIndex at) {
    of_group[group_of(at.i)].fetch_add(1, std::memory_order_relaxed);
    if (record % step == 0) columns[record / step] = at.j;
  });
  std::vector<std::atomic<std::uint64_t>> of_bucket(kNumBuckets);  // pairs times rows of a group
  for_indices(a, run, [&](std::uint64_t, BlockIndex at) {
    of_bucket[at.i * std::uint64_t{kNumBuckets} / nb].fetch_add(of_group[group_of(at.j)], std::memory_order_relaxed);
  });
  std::uint64_t b_rows = 0;  // that hold blocks; as groups tell
  for (const auto& blocks : of_group) b_rows += std::min<std::uint64_t>(blocks, (nb - 1) / num_groups + 1);
  const plan::ExpectedBlocks expected(
      plan::sampled_spread(std::move(columns), b.header().num_blocks, b_rows, static_cast<std::uint32_t>(nb)));
  std::vector<std::uint32_t> first_rows(kNumBuckets + 1);
  for (std::uint64_t x = 0; x <= kNumBuckets; ++x) {
    first_rows[x] = static_cast<std::uint32_t>((x * nb + kNumBuckets - 1) / kNumBuckets);
  }
  const double rows_of_group = static_cast<double>(nb) / static_cast<double>(num_groups);
  const auto weight = [&](std::uint32_t bucket) {
    const double rows = first_rows[bucket + 1] - first_rows[bucket];
    return rows == 0 ? 0 : rows * expected(static_cast<double>(of_bucket[bucket]) / rows_of_group / rows);
  };
  return plan::ranges_of(plan::cut_parts(kNumBuckets, weight, num_ranges), first_rows, static_cast<std::uint32_t>(nb));
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
