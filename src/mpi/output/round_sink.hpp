// Where the records of C go that a rank makes: into the one file, round by round.
#pragma once

#include <cstdint>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "mpi/divide/division.hpp"
#include "mpi/exchange/communicator.hpp"
#include "mpi/output/shared_file.hpp"
#include "spmm/stream.hpp"

namespace spmm::mpi {

/// Takes the records of all of this rank's ranges, in order, from one product or several in a row. At the end of a
/// range each rank sends the size of its part to the others, and goes on; once all sizes of a round are known each
/// writes: whole pages; what shares a page with another range is kept and goes to rank 0 at the end. So a rank may be
/// some rounds ahead of others, and ranks that would write at the same time, one after the other by the file's lock,
/// fall out of step. Collective: every rank closes every round, or says that it cannot. Memory: kNumRanges ranges, or
/// fewer where they would pass the limit, and less than three pages for each round. Threads: MPI is called from the
/// caller's thread.
class RoundSink : public Sink {
 public:
  /// Closed rounds that wait for the sizes of others. The same on all ranks.
  static constexpr std::uint32_t kRoundsAhead = 8;
  /// In memory at most: those, the one that is filled, and one that is written.
  static constexpr std::uint32_t kNumRanges = kRoundsAhead + 2;

  /// Values: limit_bytes = that ranges may have in memory.
  RoundSink(const Communicator& ranks, SharedOutput& output, const Division& division, std::uint32_t m,
            std::uint64_t limit_bytes);

  /// Errors: IoError, OutOfMemory, OtherRankFailed.
  void write(std::uint64_t first_block, std::span<const std::byte> records, Release release) override;
  void finish(const MatrixHeader&) override {}
  void publish() override {}

  /// All ranks take part in the rounds before this one next, and close them or give up before anything else.
  void open_until(std::uint32_t round) { open_end_ = round; }
  /// Closes the rounds that are open. Errors: as write().
  void close_open_rounds();
  /// After an exception on this rank: the others learn of it if they wait for its next range. Does nothing if all
  /// ranks know already. Takes no memory: there may be none.
  void give_up() noexcept;
  /// What shares pages, to rank 0. After the last round. Errors: IoError, OtherRankFailed.
  void send_fragments();

  [[nodiscard]] std::uint64_t end() const { return end_; }  ///< of the file so far
  [[nodiscard]] std::uint64_t own_bytes() const { return own_bytes_; }
  [[nodiscard]] double wait_s() const { return wait_s_; }  ///< spent on other ranks
  [[nodiscard]] double write_s() const { return write_s_; }

 private:
  /// First row that lies behind this rank's range of the present round.
  [[nodiscard]] std::uint64_t range_end() const;
  void take(std::span<const std::byte> records);
  /// Makes room in range_ for so many bytes. Errors: OutOfMemory, as finish_round().
  void grow(std::uint64_t wanted);
  void close_round();
  /// Closes the present round with these bytes. Values: size = what the others learn of it.
  void start_round(AlignedArray<std::byte> range, std::uint64_t bytes, std::uint64_t size) noexcept;
  /// Waits for the sizes of the oldest round that was closed, and writes this rank's range of it.
  void finish_round();
  /// The same without writing, after a failure of this rank; returns whether a rank has failed in that round, and all
  /// have left.
  bool drop_round() noexcept;
  /// If a rank has failed: takes part in all rounds that any rank may have closed.
  void close_after_failure(std::uint32_t failed_round) noexcept;
  [[nodiscard]] std::uint64_t closed_bytes() const;
  void write_range(std::span<const std::byte> bytes, std::uint64_t begin);
  void write(std::uint64_t offset, std::span<const std::byte> bytes);

  const Communicator& ranks_;
  SharedOutput& output_;
  const Division& division_;
  std::uint64_t record_bytes_;
  std::uint64_t limit_bytes_;
  std::uint32_t round_ = 0;
  std::uint32_t open_end_ = 0;
  bool is_over_ = false;  ///< a rank has failed, and all know
  std::uint64_t end_ = kHeaderBytes;
  std::uint64_t range_bytes_ = 0;
  std::uint64_t own_bytes_ = 0;
  double wait_s_ = 0;
  double write_s_ = 0;
  /// A range that waits for the sizes of its round.
  struct Closed {
    AlignedArray<std::byte> range;
    std::uint64_t bytes = 0;
    Gathering sizes;
  };

  [[nodiscard]] Closed& closed(std::uint32_t round) noexcept { return closed_[round % kRoundsAhead]; }
  [[nodiscard]] Closed& oldest() noexcept { return closed(round_ - num_closed_); }

  AlignedArray<std::byte> range_;  // used up to range_bytes_; grows
  std::vector<Closed> closed_;     // [kRoundsAhead], in use: num_closed_ of them, the last one is round_ - 1
  std::uint32_t num_closed_ = 0;
  std::vector<AlignedArray<std::byte>> spare_;
  Bytes fragments_;
};

}  // namespace spmm::mpi
