#include "cpu/operands/element_runs.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/records/head.hpp"
#include "spmm/types.hpp"

namespace spmm::cpu {
ElementRuns::ElementRuns(const MatrixHeader& header)
    : bits_(plan::short_key_bits(header)),
      blocks_per_side_(header.blocks_per_side()),
      size_(header.num_blocks),
      num_chunks_(plan::num_run_chunks(header)),
      num_buckets_(plan::num_row_buckets(header)),
      entries_(size_),
      runs_(num_chunks_ * (num_buckets_ + std::uint64_t{1})) {}

std::uint64_t ElementRuns::num_records(std::uint64_t chunk) const {
  return std::min(plan::kRunChunkRecords, size_ - first_record(chunk));
}

void ElementRuns::add(std::uint64_t chunk, const std::byte* records) {
  constexpr std::uint64_t kRecord = input_record_bytes(1);
  const std::uint64_t count = num_records(chunk);
  const std::uint32_t blocks_per_side = blocks_per_side_;
  const plan::ShortKeyBits bits = bits_;  // a copy: it cannot change while entries are written
  const unsigned low_bits = bits.index - bits.bucket;
  const std::uint64_t low_rows = (std::uint64_t{1} << low_bits) - 1;
  std::uint32_t* const begins = runs_.data() + chunk * (num_buckets_ + std::uint64_t{1});
  std::uint32_t next[std::size_t{1} << plan::kRowBucketBits] = {};
  std::uint64_t* const entries = entries_.data() + first_record(chunk);
  for (std::uint64_t r = 0; r < count; ++r) {
    // Stores all over a chunk wait for its lines one after the other: they are fetched while nothing is stored.
    if (r % kEntriesPerLine == 0) __builtin_prefetch(entries + r, 1);
    const BlockIndex at = read_index(records + r * kRecord);
    if (std::max(at.i, at.j) >= blocks_per_side) {
      const std::uint64_t bad = first_record(chunk) + r;
      std::uint64_t known = first_bad_.load();
      while (bad < known && !first_bad_.compare_exchange_weak(known, bad)) {
      }
      return;
    }
    ++next[at.i >> low_bits];
  }
  std::uint32_t before = 0;
  for (std::uint32_t bucket = 0; bucket < num_buckets_; ++bucket) {
    begins[bucket] = before;
    before += std::exchange(next[bucket], before);
  }
  begins[num_buckets_] = before;
  for (std::uint64_t r = 0; r < count; ++r) {
    const std::byte* const from = records + r * kRecord;
    const BlockIndex at = read_index(from);
    std::uint16_t element = 0;
    std::memcpy(&element, from + kIndexBytes, sizeof element);
    const std::uint64_t key = ((at.i & low_rows) << bits.index) | at.j;
    entries[next[at.i >> low_bits]++] = (key << bits.payload) | element;
  }
}

std::vector<std::uint64_t> ElementRuns::bucket_begins() const {
  std::vector<std::uint64_t> begins(num_buckets_ + std::size_t{1}, 0);
  for (std::uint64_t chunk = 0; chunk < num_chunks_; ++chunk) {
    const std::uint32_t* const of_chunk = runs_of(chunk);
    for (std::uint32_t bucket = 0; bucket <= num_buckets_; ++bucket) begins[bucket] += of_chunk[bucket];
  }
  return begins;
}

void ElementRuns::gather(std::uint32_t bucket, std::uint64_t* to) const {
  for_runs(bucket, [&](const std::uint64_t* from, std::uint32_t count) { to = std::copy_n(from, count, to); });
}

}  // namespace spmm::cpu
