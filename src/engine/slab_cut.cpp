#include "engine/slab_cut.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/parallel.hpp"
#include "base/record_errors.hpp"

namespace spmm::bands {

BlockIndex index_of(const std::byte* record) {
  BlockIndex at;
  std::memcpy(&at.i, record, sizeof at.i);
  std::memcpy(&at.j, record + sizeof at.i, sizeof at.j);
  return at;
}

std::vector<std::uint16_t> buckets_of(const Source& source, Along along, const Run& run) {
  const auto timing = run.clock.scope(Stage::read);
  const MatrixHeader& header = source.header();
  const std::uint64_t nb = header.blocks_per_side();
  const std::uint64_t bytes = input_record_bytes(header.m);
  std::vector<std::uint16_t> buckets(header.num_blocks);
  run.parallel_for(header.num_blocks, std::max<std::uint64_t>(1, kReadBytes / bytes),
                   [&](std::uint64_t begin, std::uint64_t end) {
                     run.check_cancelled();
                     std::vector<std::byte> raw((end - begin) * bytes);
                     source.read(begin, end - begin, raw.data());
                     for (std::uint64_t r = begin; r < end; ++r) {
                       const BlockIndex at = index_of(raw.data() + (r - begin) * bytes);
                       if (at.i >= nb || at.j >= nb) {
                         throw_index_out_of_range(source.name(), r, bytes, at, header.blocks_per_side());
                       }
                       const std::uint64_t line = along == Along::rows ? at.i : at.j;
                       buckets[r] = static_cast<std::uint16_t>(line * kNumBuckets / nb);
                     }
                   });
  return buckets;
}

std::vector<std::uint64_t> count_buckets(const std::vector<std::uint16_t>& buckets) {
  std::vector<std::uint64_t> counts(kNumBuckets, 0);
  for (const std::uint16_t bucket : buckets) ++counts[bucket];
  return counts;
}

std::vector<Band> cut_bands(const std::vector<std::uint64_t>& counts, std::uint32_t begin, std::uint32_t end,
                            std::uint32_t num_bands) {
  std::uint64_t left = std::accumulate(counts.begin() + begin, counts.begin() + end, std::uint64_t{0});
  std::vector<Band> bands;
  std::uint32_t at = begin;
  for (std::uint32_t remaining = num_bands; remaining > 0 && at < end; --remaining) {
    Band band{.begin = at, .end = at, .num_blocks = 0};
    const std::uint64_t share = (left + remaining - 1) / remaining;
    // A bucket that would pass the share opens the next band: two buckets with blocks are always parted.
    while (band.end < end && (remaining == 1 || band.num_blocks == 0 || band.num_blocks + counts[band.end] <= share)) {
      band.num_blocks += counts[band.end++];
    }
    left -= band.num_blocks;
    at = band.end;
    bands.push_back(band);
  }
  return bands;
}

std::uint64_t largest(const std::vector<Band>& bands) {
  std::uint64_t most = 0;
  for (const Band& band : bands) most = std::max(most, band.num_blocks);
  return most;
}

}  // namespace spmm::bands
