// The records of blocks of side 1 on their way to an operand, 8 bytes each with their element: parted by the upper bits
// of their block row within each chunk of the source, while it is read. Only where short_key_bits() fit.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "plan/memory/host_bytes.hpp"
#include "spmm/stream.hpp"

namespace spmm::cpu {

class ElementRuns {
 public:
  /// Memory: 8 bytes per record, plan::run_table_bytes().
  explicit ElementRuns(const MatrixHeader& header);

  [[nodiscard]] std::uint64_t num_chunks() const { return num_chunks_; }
  [[nodiscard]] std::uint64_t first_record(std::uint64_t chunk) const { return chunk * plan::kRunChunkRecords; }
  [[nodiscard]] std::uint64_t num_records(std::uint64_t chunk) const;

  /// Parts the records of a chunk. Threads: any, each chunk once.
  void add(std::uint64_t chunk, const std::byte* records);

  /// After all chunks, where an index is out of range: the first such record.
  [[nodiscard]] std::uint64_t first_bad() const { return first_bad_; }
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  /// Shapes: returns how many entries come before those of each bucket, and of all [num_buckets() + 1].
  [[nodiscard]] std::vector<std::uint64_t> bucket_begins() const;
  [[nodiscard]] std::uint32_t num_buckets() const { return num_buckets_; }

  /// Calls body(entries, their number) for the runs of a bucket, in the order of their records.
  template <class Body>
  void for_runs(std::uint32_t bucket, const Body& body) const {
    constexpr std::uint64_t kRunsAhead = 4;  // that are fetched: each lies in another chunk
    for (std::uint64_t chunk = 0; chunk < num_chunks_; ++chunk) {
      if (chunk + kRunsAhead < num_chunks_) {
        const std::uint32_t* const ahead = runs_of(chunk + kRunsAhead) + bucket;
        const std::uint64_t* const from = entries_.data() + first_record(chunk + kRunsAhead);
        for (std::uint32_t x = ahead[0]; x < ahead[1]; x += kEntriesPerLine) __builtin_prefetch(from + x);
      }
      const std::uint32_t* const run = runs_of(chunk) + bucket;
      body(entries_.data() + first_record(chunk) + run[0], run[1] - run[0]);
    }
  }

  /// Copies the entries of a bucket, in the order of their records. Shapes: to [entries of the bucket].
  void gather(std::uint32_t bucket, std::uint64_t* to) const;

  /// Of an entry: its position within the bucket, from bit 0 of what plan::short_key_bits().payload bits precede.
  [[nodiscard]] const plan::ShortKeyBits& bits() const { return bits_; }
  [[nodiscard]] BlockIndex index_of(std::uint32_t bucket, std::uint64_t entry) const {
    const std::uint64_t key = entry >> bits_.payload;
    return {.i = first_row(bucket) + static_cast<std::uint32_t>(key >> bits_.index),
            .j = static_cast<std::uint32_t>(key & ((std::uint64_t{1} << bits_.index) - 1))};
  }
  [[nodiscard]] std::uint32_t first_row(std::uint32_t bucket) const { return bucket << (bits_.index - bits_.bucket); }

 private:
  static constexpr std::uint32_t kEntriesPerLine = 8;

  [[nodiscard]] const std::uint32_t* runs_of(std::uint64_t chunk) const {
    return runs_.data() + chunk * (num_buckets_ + std::uint64_t{1});
  }

  plan::ShortKeyBits bits_;
  std::uint32_t blocks_per_side_;
  std::uint64_t size_;
  std::uint64_t num_chunks_;
  std::uint32_t num_buckets_;
  AlignedArray<std::uint64_t> entries_;  // chunk by chunk
  AlignedArray<std::uint32_t> runs_;     // [num_chunks, num_buckets + 1] where the run of a bucket begins in its chunk
  std::atomic<std::uint64_t> first_bad_ = kNone;
};

}  // namespace spmm::cpu
