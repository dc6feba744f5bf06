// Partial products of all ranks -> the ranges of C, round by round.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/slabs/streams.hpp"
#include "mpi/divide/division.hpp"
#include "mpi/exchange/transfers.hpp"

namespace spmm::mpi {

/// Sends what a rank has made of each range to the rank that the range belongs to, and adds up what arrives.
/// Memory: the partial product, less what has been sent (in pieces of 1 MB); of one round what is sent, what arrives
/// and its sum.
class PartialRounds {
 public:
  /// Values: limit_bytes = of the partial product at most.
  PartialRounds(const Group& group, const Division& division, std::uint32_t m, std::uint64_t limit_bytes)
      : group_(group),
        division_(division),
        m_(m),
        left_bytes_(limit_bytes),
        partial_(left_bytes_, output_record_bytes(m)) {}
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
  std::uint64_t left_bytes_;
  slabs::KeepingSink partial_;
  std::size_t chunk_ = 0;        ///< that holds the first record not sent yet
  std::uint64_t next_byte_ = 0;  ///< of that record in its chunk
  std::vector<Bytes> received_;
};

}  // namespace spmm::mpi
