#include "cpu/operands/order/short_keys.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <span>
#include <utility>

#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "cpu/operands/order/digit_sorter.hpp"
#include "cpu/operands/order/radix_sort.hpp"

namespace spmm::cpu {
namespace {

constexpr std::uint64_t kMinPerThread = 1u << 15;  // below it, starting a thread costs more than it saves
constexpr std::uint64_t kRecordsPerCheck = 1u << 18;

const std::byte* head_of(const AlignedArray<std::uint64_t>& heads, std::uint64_t at) {
  return reinterpret_cast<const std::byte*>(heads.data() + at);
}

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

ShortKeys::ShortKeys(const Source& source, AlignedArray<std::uint64_t> heads, const Run& run)
    : bits_(plan::short_key_bits(source.header())),
      entries_(source.header().num_blocks),
      begins_((std::size_t{1} << bits_.bucket) + 1, 0) {
  const auto num_workers =
      static_cast<std::size_t>(std::clamp<std::uint64_t>(size() / kMinPerThread, 1, std::max(1u, run.num_threads)));
  std::vector<std::vector<std::uint64_t>> positions(num_workers, std::vector<std::uint64_t>(num_buckets(), 0));
  count(source, heads, run, positions);
  distribute(heads, run, positions);
  sort_buckets(heads, run);
}

/// Fills positions with the first entry of each worker's records of each bucket.
void ShortKeys::count(const Source& source, const AlignedArray<std::uint64_t>& heads, const Run& run,
                      std::vector<std::vector<std::uint64_t>>& positions) {
  const std::uint32_t nb = source.header().blocks_per_side();
  constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
  std::atomic<std::uint64_t> first_bad = kNone;
  const auto num_workers = static_cast<unsigned>(positions.size());
  run.run_workers(num_workers, [&](unsigned worker) {
    std::vector<std::uint64_t>& counts = positions[worker];
    for_share(size(), worker, num_workers, run, [&](std::uint64_t r) {
      const BlockIndex at = read_index(head_of(heads, r));
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
    throw_index_out_of_range(source, first_bad, read_index(head_of(heads, first_bad)));
  }
  std::uint64_t next = 0;
  for (std::uint32_t bucket = 0; bucket < num_buckets(); ++bucket) {
    begins_[bucket] = next;
    for (std::vector<std::uint64_t>& of_worker : positions) next += std::exchange(of_worker[bucket], next);
  }
  begins_.back() = next;
}

/// Records of a bucket stay in their order.
void ShortKeys::distribute(const AlignedArray<std::uint64_t>& heads, const Run& run,
                           std::vector<std::vector<std::uint64_t>>& positions) {
  const std::uint64_t low_rows = (std::uint64_t{1} << (bits_.index - bits_.bucket)) - 1;
  const auto num_workers = static_cast<unsigned>(positions.size());
  run.run_workers(num_workers, [&](unsigned worker) {
    std::vector<std::uint64_t>& position = positions[worker];
    for_share(size(), worker, num_workers, run, [&](std::uint64_t r) {
      const BlockIndex at = read_index(head_of(heads, r));
      const std::uint64_t key = ((at.i & low_rows) << bits_.index) | at.j;
      entries_[position[bucket_of(at.i)]++] = (key << bits_.payload) | r;
    });
  });
}

/// A bucket a thread, those with most of the records by all threads together.
void ShortKeys::sort_buckets(const AlignedArray<std::uint64_t>& scratch, const Run& run) {
  constexpr std::uint32_t kBucketsPerTurn = 16;  // a worker takes at a time
  const std::uint64_t large = std::max<std::uint64_t>(1u << 20, size() / (4 * std::max(1u, run.num_threads)));
  const auto items_of = [&](std::uint32_t bucket) {
    return std::span(entries_.data() + begins_[bucket], begins_[bucket + 1] - begins_[bucket]);
  };
  const unsigned last_bit = bits_.payload + bits_.key();
  std::atomic<std::uint32_t> next = 0;
  const auto turns = size() / kMinPerThread + 1;
  run.run_workers(static_cast<unsigned>(std::min<std::uint64_t>(std::max(1u, run.num_threads), turns)), [&](unsigned) {
    DigitSorter sorter;
    for (std::uint32_t first = 0; (first = next.fetch_add(kBucketsPerTurn)) < num_buckets();) {
      run.check_cancelled();
      for (std::uint32_t bucket = first; bucket < std::min(first + kBucketsPerTurn, num_buckets()); ++bucket) {
        const std::span<std::uint64_t> items = items_of(bucket);
        if (items.size() > large) continue;
        const std::uint64_t* const sorted =
            sorter.sort(items, scratch.data() + begins_[bucket], bits_.payload, last_bit);
        if (sorted != items.data()) std::copy_n(sorted, items.size(), items.data());
      }
    }
  });
  for (std::uint32_t bucket = 0; bucket < num_buckets(); ++bucket) {
    const std::span<std::uint64_t> items = items_of(bucket);
    if (items.size() <= large) continue;
    radix_sort(items, scratch.data() + begins_[bucket], bits_.payload, last_bit, run.num_threads, &run);
  }
}

}  // namespace spmm::cpu
