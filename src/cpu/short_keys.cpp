#include "cpu/short_keys.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <span>
#include <utility>

#include "base/record_errors.hpp"
#include "base/record_head.hpp"
#include "cpu/radix_sort.hpp"

namespace spmm::cpu {
namespace {

constexpr std::uint64_t kMinPerThread = 1u << 15;  // below it, starting a thread costs more than it saves
constexpr std::uint64_t kRecordsPerCheck = 1u << 18;

/// The records of one worker, in pieces between which a cancelled run stops.
template <class Body>
void for_share(std::uint64_t size, unsigned worker, unsigned num_workers, const Run& run, const Body& body) {
  const std::uint64_t last = size * (worker + 1) / num_workers;
  for (std::uint64_t r = size * worker / num_workers; r < last;) {
    run.check_cancelled();
    for (const std::uint64_t stop = std::min(last, r + kRecordsPerCheck); r < stop; ++r) body(r);
  }
}

}  // namespace

ShortKeys::ShortKeys(const Source& source, const AlignedArray<std::byte>& raw, const Run& run)
    : bits_(plan::short_key_bits(source.header())),
      entries_(source.header().num_blocks),
      begins_((std::size_t{1} << bits_.bucket) + 1, 0) {
  const auto num_workers =
      static_cast<std::size_t>(std::clamp<std::uint64_t>(size() / kMinPerThread, 1, std::max(1u, run.num_threads)));
  std::vector<std::vector<std::uint64_t>> positions(num_workers, std::vector<std::uint64_t>(num_buckets(), 0));
  count(source, raw, run, positions);
  distribute(source, raw, run, positions);
  sort_buckets(run);
}

/// Fills positions with the first entry of each worker's records of each bucket.
void ShortKeys::count(const Source& source, const AlignedArray<std::byte>& raw, const Run& run,
                      std::vector<std::vector<std::uint64_t>>& positions) {
  const std::uint64_t record = input_record_bytes(source.header().m);
  const std::uint32_t nb = source.header().blocks_per_side();
  constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
  std::atomic<std::uint64_t> first_bad = kNone;
  const auto num_workers = static_cast<unsigned>(positions.size());
  run.run_workers(num_workers, [&](unsigned worker) {
    std::vector<std::uint64_t>& counts = positions[worker];
    for_share(size(), worker, num_workers, run, [&](std::uint64_t r) {
      const BlockIndex at = read_index(raw.data() + r * record);
      if (at.i < nb && at.j < nb) {
        ++counts[bucket_of(at.i)];
        return;
      }
      std::uint64_t known = first_bad.load();
      while (r < known && !first_bad.compare_exchange_weak(known, r)) {
      }
    });
  });
  if (first_bad != kNone) {
    throw_index_out_of_range(source, first_bad, read_index(raw.data() + first_bad * record));
  }
  std::uint64_t next = 0;
  for (std::uint32_t bucket = 0; bucket < num_buckets(); ++bucket) {
    begins_[bucket] = next;
    for (std::vector<std::uint64_t>& of_worker : positions) next += std::exchange(of_worker[bucket], next);
  }
  begins_.back() = next;
}

/// Records of a bucket stay in their order.
void ShortKeys::distribute(const Source& source, const AlignedArray<std::byte>& raw, const Run& run,
                           std::vector<std::vector<std::uint64_t>>& positions) {
  const std::uint64_t record = input_record_bytes(source.header().m);
  const std::uint64_t low_rows = (std::uint64_t{1} << (bits_.index - bits_.bucket)) - 1;
  const auto num_workers = static_cast<unsigned>(positions.size());
  run.run_workers(num_workers, [&](unsigned worker) {
    std::vector<std::uint64_t>& position = positions[worker];
    for_share(size(), worker, num_workers, run, [&](std::uint64_t r) {
      const BlockIndex at = read_index(raw.data() + r * record);
      const std::uint64_t key = ((at.i & low_rows) << bits_.index) | at.j;
      entries_[position[bucket_of(at.i)]++] = (key << bits_.payload) | r;
    });
  });
}

/// A bucket a thread, those with most of the records by all threads together.
void ShortKeys::sort_buckets(const Run& run) {
  constexpr std::uint64_t kMinRadix = 256;  // shorter ones are compared
  const AlignedArray<std::uint64_t> scratch(size());
  const std::uint64_t large = std::max<std::uint64_t>(1u << 20, size() / (4 * std::max(1u, run.num_threads)));
  const auto sort = [&](std::uint32_t bucket, unsigned num_threads) {
    const std::span<std::uint64_t> items(entries_.data() + begins_[bucket], begins_[bucket + 1] - begins_[bucket]);
    const auto by_key = [&](std::uint64_t x, std::uint64_t y) { return x >> bits_.payload < y >> bits_.payload; };
    if (std::is_sorted(items.begin(), items.end(), by_key)) return;
    if (items.size() < kMinRadix) {
      std::sort(items.begin(), items.end());
      return;
    }
    radix_sort(items, scratch.data() + begins_[bucket], bits_.payload, bits_.payload + bits_.key(), num_threads, &run);
  };
  const auto is_large = [&](std::uint32_t bucket) { return begins_[bucket + 1] - begins_[bucket] > large; };
  constexpr std::uint64_t kBucketsPerPiece = 4;
  run.parallel_for(num_buckets(), kBucketsPerPiece, [&](std::uint64_t first, std::uint64_t last) {
    run.check_cancelled();
    for (auto bucket = static_cast<std::uint32_t>(first); bucket < last; ++bucket) {
      if (!is_large(bucket)) sort(bucket, 1);
    }
  });
  for (std::uint32_t bucket = 0; bucket < num_buckets(); ++bucket) {
    if (is_large(bucket)) sort(bucket, run.num_threads);
  }
}

}  // namespace spmm::cpu
