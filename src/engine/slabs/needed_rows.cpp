// Groups of block rows of B, and a bit for each slab that reads one.
#include "engine/slabs/needed_rows.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <numeric>

#include "base/records/errors.hpp"
#include "base/run/cancellable.hpp"
#include "engine/slabs/index_pass.hpp"

namespace spmm::slabs {
namespace {

constexpr std::uint64_t kGrain = 1u << 16;  // records per piece of parallel work
static_assert(plan::kSlabCounts.back() <= 64, "a slab is a bit");

std::uint16_t bucket_of(std::uint32_t at, std::uint64_t nb) {
  return static_cast<std::uint16_t>(std::uint64_t{at} * kNumBuckets / nb);
}

std::uint32_t group_of(std::uint32_t row, std::uint64_t nb, std::uint64_t num_groups) {
  return static_cast<std::uint32_t>(row * num_groups / nb);
}

/// Groups that no slab reads go to slabs in order, each filled up to what the largest one has or to an even share.
void deal_out(const CountsOfB& b, NeededRows& needed, const Run& run) {
  std::vector<std::uint64_t>& blocks = needed.num_blocks;
  std::uint64_t left = 0;
  for_ranges(run, needed.slabs.size(), [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t g = begin; g < end; ++g) left += needed.slabs[g] == 0 ? b.of_groups[g] : 0;
  });
  if (left == 0) return;
  const std::uint64_t sum = std::accumulate(blocks.begin(), blocks.end(), left);
  const std::uint64_t target =
      std::max(*std::max_element(blocks.begin(), blocks.end()), (sum + blocks.size() - 1) / blocks.size());
  std::size_t slab = 0;
  for_ranges(run, needed.slabs.size(), [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t g = begin; g < end; ++g) {
      if (needed.slabs[g] != 0 || b.of_groups[g] == 0) continue;
      while (slab + 1 < blocks.size() && blocks[slab] >= target) ++slab;
      needed.slabs[g] = std::uint64_t{1} << slab;
      blocks[slab] += b.of_groups[g];
    }
  });
}

}  // namespace

ListsOfA lists_of_a(const Source& a, std::uint64_t num_groups, const Run& run) {
  const MatrixHeader& header = a.header();
  const std::uint64_t nb = header.blocks_per_side();
  ListsOfA lists{.buckets = AlignedArray<std::uint16_t>(header.num_blocks),
                 .groups = AlignedArray<std::uint32_t>(header.num_blocks)};
  for_indices(a, run, [&](std::uint64_t record, BlockIndex at) {
    lists.buckets[record] = bucket_of(at.i, nb);
    lists.groups[record] = group_of(at.j, nb, num_groups);
  });
  return lists;
}

CountsOfB count_b(const Source& b, std::uint64_t num_groups, const Run& run) {
  const std::uint64_t nb = b.header().blocks_per_side();
  CountsOfB counts{.of_columns = std::vector<std::uint64_t>(kNumBuckets, 0),
                   .of_groups = AlignedArray<std::uint32_t>(num_groups)};
  std::fill(counts.of_groups.begin(), counts.of_groups.end(), 0);
  for_indices(b, run, [&](std::uint64_t, BlockIndex at) {
    std::atomic_ref(counts.of_columns[bucket_of(at.j, nb)]).fetch_add(1, std::memory_order_relaxed);
    std::atomic_ref(counts.of_groups[group_of(at.i, nb, num_groups)]).fetch_add(1, std::memory_order_relaxed);
  });
  return counts;
}

AlignedArray<std::uint32_t> groups_of(const Source& b, std::uint64_t num_groups, const Run& run) {
  const std::uint64_t nb = b.header().blocks_per_side();
  AlignedArray<std::uint32_t> groups(b.header().num_blocks);
  for_indices(b, run, [&](std::uint64_t record, BlockIndex at) { groups[record] = group_of(at.i, nb, num_groups); });
  return groups;
}

NeededRows needed_rows(const ListsOfA& a, const CountsOfB& b, const std::vector<Slab>& slabs_of_a, const Run& run) {
  std::vector<std::uint8_t> slab_of_bucket(kNumBuckets, 0);
  for (std::size_t s = 0; s < slabs_of_a.size(); ++s) {
    std::fill(slab_of_bucket.begin() + slabs_of_a[s].begin, slab_of_bucket.begin() + slabs_of_a[s].end,
              static_cast<std::uint8_t>(s));
  }
  NeededRows needed{.slabs = AlignedArray<std::uint64_t>(b.of_groups.size()),
                    .num_blocks = std::vector<std::uint64_t>(slabs_of_a.size(), 0)};
  std::fill(needed.slabs.begin(), needed.slabs.end(), 0);
  run.parallel_for(a.groups.size(), kGrain, [&](std::uint64_t begin, std::uint64_t end) {
    run.check_cancelled();
    for (std::uint64_t r = begin; r < end; ++r) {
      const std::atomic_ref slabs(needed.slabs[a.groups[r]]);
      const std::uint64_t bit = std::uint64_t{1} << slab_of_bucket[a.buckets[r]];
      if ((slabs.load(std::memory_order_relaxed) & bit) == 0) slabs.fetch_or(bit, std::memory_order_relaxed);
    }
  });
  for_ranges(run, needed.slabs.size(), [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t g = begin; g < end; ++g) {
      for (std::uint64_t left = needed.slabs[g]; left != 0; left &= left - 1) {
        needed.num_blocks[static_cast<std::size_t>(std::countr_zero(left))] += b.of_groups[g];
      }
    }
  });
  deal_out(b, needed, run);
  return needed;
}

AlignedArray<std::uint32_t> needed_records(const Source& b, const NeededRows& needed, std::uint32_t slab,
                                           const AlignedArray<std::uint32_t>& groups, const Run& run) {
  const std::uint64_t num_records = needed.num_blocks.at(slab);
  AlignedArray<std::uint32_t> records(num_records);
  std::uint64_t count = 0;
  for_ranges(run, groups.size(), [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t r = begin; r < end; ++r) {  // written before it is known to be needed
      if (count < num_records) records[count] = static_cast<std::uint32_t>(r);
      count += (needed.slabs[groups[r]] >> slab) & 1;
    }
  });
  if (count != num_records) throw_changed_content(b.name());
  return records;
}

}  // namespace spmm::slabs
