// The records of an operand in the order of their positions, 8 bytes each: parted by the upper bits of their block row,
// sorted within each part. Only where short_key_bits() fit, and for sides above 1 (element_runs.hpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "base/run/run.hpp"
#include "plan/memory/host_bytes.hpp"
#include "spmm/stream.hpp"

namespace spmm::cpu {

class ShortKeys {
 public:
  /// Shapes: heads [num_blocks, kIndexBytes] the index of each record. Memory: 8 bytes per record in addition to heads.
  /// Errors: FormatError for the first record whose index is out of range; Interrupted.
  ShortKeys(const Source& source, AlignedArray<std::uint64_t> heads, const Run& run);

  [[nodiscard]] std::uint64_t size() const { return entries_.size(); }

  /// Calls body(entry, index, starts a block row, is the position of the one before) for the entries [first, last).
  template <class Body>
  void visit(std::uint64_t first, std::uint64_t last, const Body& body) const {
    auto bucket =
        static_cast<std::uint32_t>(std::upper_bound(begins_.begin(), begins_.end(), first) - begins_.begin() - 1);
    std::uint64_t before = first > begins_[bucket] ? key(first - 1) : 0;
    for (std::uint64_t x = first; x < last; ++x) {
      while (x == begins_[bucket + 1]) ++bucket;
      const std::uint64_t here = key(x);
      const bool is_first = x == begins_[bucket];
      body(x, index_of(bucket, here), is_first || here >> bits_.index != before >> bits_.index,
           !is_first && here == before);
      before = here;
    }
  }

  /// Number of the record.
  [[nodiscard]] std::uint32_t payload(std::uint64_t at) const {
    return static_cast<std::uint32_t>(entries_[at] & ((std::uint64_t{1} << bits_.payload) - 1));
  }

 private:
  [[nodiscard]] std::uint64_t key(std::uint64_t at) const { return entries_[at] >> bits_.payload; }
  [[nodiscard]] BlockIndex index_of(std::uint32_t bucket, std::uint64_t key) const {
    const std::uint64_t low_row = key >> bits_.index;
    return {.i = static_cast<std::uint32_t>((std::uint64_t{bucket} << (bits_.index - bits_.bucket)) | low_row),
            .j = static_cast<std::uint32_t>(key & ((std::uint64_t{1} << bits_.index) - 1))};
  }
  [[nodiscard]] std::uint32_t num_buckets() const { return static_cast<std::uint32_t>(begins_.size() - 1); }
  void count(const Source& source, const AlignedArray<std::uint64_t>& heads, const Run& run,
             std::vector<std::vector<std::uint64_t>>& positions);
  void distribute(const AlignedArray<std::uint64_t>& heads, const Run& run,
                  std::vector<std::vector<std::uint64_t>>& positions);
  void sort_buckets(const AlignedArray<std::uint64_t>& scratch, const Run& run);
  [[nodiscard]] std::uint32_t bucket_of(std::uint32_t row) const { return row >> (bits_.index - bits_.bucket); }

  plan::ShortKeyBits bits_;
  AlignedArray<std::uint64_t> entries_;
  std::vector<std::uint64_t> begins_;  // [buckets + 1] records of a bucket share the upper bits of their block row
};

}  // namespace spmm::cpu
