// Partial products of all ranks -> the ranges of C, round by round.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "mpi/divide/division.hpp"
#include "mpi/exchange/transfers.hpp"
#include "spmm/stream.hpp"

namespace spmm::mpi {

/// Keeps records in memory, up to a limit, in chunks that are freed one by one.
class KeepingSink : public Sink {
 public:
  /// Whole records in order.
  struct Chunk {
    AlignedArray<std::byte> memory;
    std::uint64_t used_bytes = 0;
  };

  KeepingSink(std::uint64_t limit_bytes, std::uint64_t record_bytes)
      : left_bytes_(limit_bytes), record_bytes_(record_bytes) {}

  /// Errors: OutOfMemory.
  void write(std::uint64_t first_block, std::span<const std::byte> records, Release release) override;
  void finish(const MatrixHeader&) override {}
  void publish() override {}

  /// All but the last one are full.
  [[nodiscard]] std::deque<Chunk>& chunks() { return chunks_; }

 private:
  std::uint64_t left_bytes_;
  std::uint64_t record_bytes_;
  std::deque<Chunk> chunks_;
};

/// Sends what a rank has made of each range to the rank that the range belongs to, and adds up what arrives.
/// Memory: the partial product, less what has been sent (in pieces of 1 MB); of one round what is sent, what arrives
/// and its sum.
class PartialRounds {
 public:
  /// Values: limit_bytes = of the partial product at most.
  PartialRounds(const Group& group, const Division& division, std::uint32_t m, std::uint64_t limit_bytes)
      : group_(group), division_(division), m_(m), partial_(limit_bytes, output_record_bytes(m)) {}
  PartialRounds(const PartialRounds&) = delete;
  PartialRounds& operator=(const PartialRounds&) = delete;

  /// Takes the partial product of this rank.
  [[nodiscard]] Sink& sink() { return partial_; }
  /// Brings the next round's records to their ranks. Collective.
  void exchange(std::uint32_t round);
  /// Records of this rank's range of that round.
  [[nodiscard]] std::vector<std::byte> sum();

 private:
  [[nodiscard]] std::vector<Bytes> take(std::uint32_t round);

  const Group& group_;
  const Division& division_;
  std::uint32_t m_;
  KeepingSink partial_;
  std::size_t chunk_ = 0;        ///< that holds the first record not sent yet
  std::uint64_t next_byte_ = 0;  ///< of that record in its chunk
  std::vector<Bytes> received_;
};

}  // namespace spmm::mpi
