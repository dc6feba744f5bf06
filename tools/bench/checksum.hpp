// A sink that keeps a checksum of the records and drops them: for results that no disk would hold.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/run/parallel.hpp"
#include "spmm/error.hpp"
#include "spmm/stream.hpp"
#include "tools/common/random.hpp"

namespace spmm::tools {

/// What two results must have in common. The checksum depends on every byte and on its place: results that differ in
/// some words have the same one with a probability of about 2^-64.
struct ResultChecksum {
  std::uint64_t num_blocks = 0;
  std::uint64_t sum = 0;

  friend bool operator==(const ResultChecksum&, const ResultChecksum&) = default;
};

/// Threads: write() from one at a time; it works on num_threads.
class ChecksumSink : public Sink {
 public:
  /// Values: blocks of m x m.
  ChecksumSink(std::uint32_t m, unsigned num_threads)
      : record_bytes_(output_record_bytes(m)), num_threads_(num_threads) {}

  [[nodiscard]] const ResultChecksum& checksum() const { return checksum_; }

  void write(std::uint64_t first_block, std::span<const std::byte> records, Release) override {
    constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 18;
    const std::uint64_t count = records.size() / record_bytes_;
    std::atomic<std::uint64_t> sum{0};
    parallel_for(num_threads_, count, std::max<std::uint64_t>(1, kPieceBytes / record_bytes_),
                 [&](std::uint64_t begin, std::uint64_t end) {
                   std::uint64_t part = 0;
                   for (std::uint64_t r = begin; r < end; ++r) {
                     part += sum_of(records.subspan(r * record_bytes_, record_bytes_), first_block + r);
                   }
                   sum += part;
                 });
    checksum_.sum += sum;
    checksum_.num_blocks += count;
  }

  void finish(const MatrixHeader& header) override {
    if (header.num_blocks == checksum_.num_blocks) return;
    throw IoError("checksum", "the header announces another number of blocks than there were", "report this as a bug");
  }
  void publish() override {}

 private:
  /// Words are keyed by their place and added up: threads may add in any order.
  [[nodiscard]] std::uint64_t sum_of(std::span<const std::byte> record, std::uint64_t number) const {
    constexpr std::uint64_t kWordBytes = sizeof(std::uint64_t);
    std::uint64_t sum = 0;
    std::uint64_t key = (number * ((record_bytes_ + kWordBytes - 1) / kWordBytes) + 1) * kGolden;
    for (std::uint64_t at = 0; at < record_bytes_; at += kWordBytes, key += kGolden) {
      std::uint64_t word = 0;
      std::memcpy(&word, record.data() + at, std::min(kWordBytes, record_bytes_ - at));
      sum += mix(mix(key) ^ word);
    }
    return sum;
  }

  std::uint64_t record_bytes_;
  unsigned num_threads_;
  ResultChecksum checksum_;
};

}  // namespace spmm::tools
