// The ranks of a run and what they say to each other. The one place that calls MPI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace spmm::mpi {

using Bytes = std::vector<std::byte>;

/// All ranks of the program. Every member but the plain questions and the alarm is collective: all ranks call it, in
/// one order. Messages have a few KB: nothing of the matrices goes through them.
/// Threads: one at a time.
class Communicator {
 public:
  /// Starts MPI; the destructor ends it.
  Communicator();
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] const std::string& host() const { return host_; }
  /// Whether threads other than the first may make calls, one at a time: what products need, and not every MPI has.
  [[nodiscard]] bool serves_threads() const { return serves_threads_; }
  /// Ranks on this machine, and which of them this one is.
  [[nodiscard]] int local_size() const { return local_size_; }
  [[nodiscard]] int local_rank() const { return local_rank_; }

  [[nodiscard]] std::uint64_t sum(std::uint64_t value) const;
  [[nodiscard]] std::uint64_t min(std::uint64_t value) const;
  /// One value of every rank. Shapes: result [size()].
  [[nodiscard]] std::vector<std::uint64_t> gather(std::uint64_t value) const;
  /// A few KB of every rank. Shapes: result [size()] on rank 0, empty on the others.
  [[nodiscard]] std::vector<Bytes> gather_at_first(const Bytes& bytes) const;
  [[nodiscard]] Bytes broadcast(const Bytes& bytes, int from) const;
  void barrier() const;

  /// Cores that the ranks of this machine may use together, over this one's share of them; at least 1.
  [[nodiscard]] unsigned cores_per_rank() const;

  /// Sends an alarm to all other ranks; not collective. Each must be cleared.
  void raise_alarm() const;
  /// Whether an alarm of another rank is there; not collective.
  [[nodiscard]] bool hears_alarm() const;
  /// Takes the alarms that were raised since the last call. Values: has_raised = by this rank.
  void clear_alarms(bool has_raised) const;

  /// Ends all ranks. Does not return.
  [[noreturn]] void abort(int code) const;

 private:
  int rank_ = 0;
  int size_ = 1;
  int local_rank_ = 0;
  int local_size_ = 1;
  bool serves_threads_ = false;
  std::string host_;
};

}  // namespace spmm::mpi
