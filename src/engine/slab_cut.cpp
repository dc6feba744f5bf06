#include "engine/slab_cut.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>

#include "base/cancellable.hpp"
#include "base/parallel.hpp"
#include "base/record_errors.hpp"
#include "base/record_head.hpp"

namespace spmm::slabs {
namespace {

constexpr std::uint64_t kReadsPerPiece = 16;  // one buffer serves that many

bool is_inside(BlockIndex at, std::uint64_t nb) {
  return at.i < nb && at.j < nb;
}

/// Errors: always FormatError.
[[noreturn]] void throw_bad_index(const Source& source, std::uint64_t record) {
  const MatrixHeader& header = source.header();
  const std::uint64_t bytes = input_record_bytes(header.m);
  const AlignedArray<std::byte> raw(bytes);
  source.read(record, 1, raw.data());
  throw_index_out_of_range(source.name(), record, bytes, read_index(raw.data()), header.blocks_per_side());
}

}  // namespace

AlignedArray<std::uint16_t> buckets_of(const Source& source, Along along, const Run& run) {
  const auto timing = run.clock.scope(Stage::read);
  const MatrixHeader& header = source.header();
  const std::uint64_t nb = header.blocks_per_side();
  const std::uint64_t bytes = input_record_bytes(header.m);
  const std::uint64_t most = std::max<std::uint64_t>(1, kReadBytes / bytes);  // records of one read
  AlignedArray<std::uint16_t> buckets(header.num_blocks);
  constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
  std::atomic<std::uint64_t> first_bad = kNone;
  run.parallel_for(header.num_blocks, most * kReadsPerPiece, [&](std::uint64_t begin, std::uint64_t end) {
    const AlignedArray<std::byte> raw(std::min(most, end - begin) * bytes);
    for (std::uint64_t r = begin; r < end;) {
      run.check_cancelled();
      const std::uint64_t count = std::min(most, end - r);
      source.read(r, count, raw.data());
      for (const std::byte* record = raw.data(); record != raw.data() + count * bytes; record += bytes, ++r) {
        const BlockIndex at = read_index(record);
        if (!is_inside(at, nb)) {
          std::uint64_t known = first_bad.load();
          while (r < known && !first_bad.compare_exchange_weak(known, r)) {
          }
          return;
        }
        buckets[r] = static_cast<std::uint16_t>(std::uint64_t{along == Along::rows ? at.i : at.j} * kNumBuckets / nb);
      }
    }
  });
  if (first_bad != kNone) throw_bad_index(source, first_bad);
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
