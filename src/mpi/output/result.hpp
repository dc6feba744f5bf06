// Where the result of a distributed product goes: one file, or a folder of parts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "mpi/divide/division.hpp"
#include "mpi/exchange/communicator.hpp"
#include "spmm/options.hpp"
#include "spmm/report.hpp"
#include "spmm/stream.hpp"

namespace spmm::mpi {

/// Takes the records of all of a rank's ranges and makes the whole visible at once. Members are called in this order;
/// all ranks call those that are collective. One that goes before make_visible() leaves nothing, if those of the other
/// ranks went before that of rank 0.
class ResultOutput {
 public:
  virtual ~ResultOutput() = default;

  /// Rank 0. Errors: OutputError.
  virtual void create(const std::filesystem::path& path) = 0;
  /// What the other ranks need to open what rank 0 has made; empty before create().
  [[nodiscard]] virtual Bytes ticket() const = 0;
  /// The other ranks. Errors: OutputError where this machine does not see what rank 0 has made.
  virtual void open(const Bytes& ticket) = 0;

  /// Which rank computes what.
  [[nodiscard]] virtual RangeOrder order() const = 0;
  /// C is divided. Values: header = n and m of the result; the division stays where it is. Errors: OutputError.
  virtual void start(const Division& division, const MatrixHeader& header) = 0;

  /// Of this rank's ranges, in order.
  [[nodiscard]] virtual Sink& sink() = 0;
  /// That it may keep in memory in addition to what is handed to it.
  [[nodiscard]] virtual std::uint64_t kept_bytes() const = 0;
  /// All ranks fill the rounds before this one next, and close them or give up before anything else.
  virtual void open_until(std::uint32_t round) = 0;
  /// Errors: as those of the sink.
  virtual void close_open_rounds() = 0;
  /// After an exception on this rank: the others learn of it before they have filled their rounds.
  virtual void give_up() = 0;

  /// After the last round. Collective. Errors: IoError, OtherRankFailed.
  virtual void settle() = 0;
  /// Each rank completes what it has written. Errors: IoError, OutputError.
  virtual void close_here() = 0;
  /// num_blocks() is known. Collective.
  virtual void gather() = 0;
  /// Rank 0, when all ranks have closed. Errors: OutputError, IoError.
  virtual void make_visible() = 0;

  [[nodiscard]] virtual std::uint64_t num_blocks() const = 0;                 ///< of the whole
  [[nodiscard]] virtual std::uint64_t own_num_blocks() const = 0;             ///< of this rank
  [[nodiscard]] virtual std::vector<ResultPart> parts() const { return {}; }  ///< on rank 0
  [[nodiscard]] virtual double wait_s() const { return 0; }                   ///< for other ranks
  [[nodiscard]] virtual double write_s() const = 0;
};

/// Values: num_parts = 0: one file; limit_bytes = of records that wait for their place in it; the threads of this rank
/// are options.num_threads.
std::unique_ptr<ResultOutput> make_output(const Communicator& ranks, const Options& options, std::uint32_t num_parts,
                                          std::uint64_t limit_bytes);

}  // namespace spmm::mpi
