// A sink that keeps a checksum of the records and drops them: for results that no disk would hold.
#pragma once

#include <cstdint>
#include <span>

#include "spmm/stream.hpp"

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
  ChecksumSink(std::uint32_t m, unsigned num_threads);

  [[nodiscard]] const ResultChecksum& checksum() const { return checksum_; }

  void write(std::uint64_t first_block, std::span<const std::byte> records, Release release) override;
  void finish(const MatrixHeader& header) override;
  void publish() override {}

 private:
  std::uint64_t record_bytes_;
  unsigned num_threads_;
  ResultChecksum checksum_;
};

}  // namespace spmm::tools
