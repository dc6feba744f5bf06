// The ranks of a run and what they say to each other. The one place that calls MPI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace spmm::mpi {

using Bytes = std::vector<std::byte>;

/// Thrown on the ranks that have not failed themselves.
class OtherRankFailed : public std::exception {};

/// Values of all ranks on their way, again and again. It has its memory from the start: a rank without memory can still
/// tell the others so. After start() finish() must be called, on all ranks.
class Gathering {
 public:
  explicit Gathering(int num_ranks);
  ~Gathering();
  Gathering(Gathering&&) noexcept;
  Gathering& operator=(Gathering&&) noexcept;

  /// Collective, in one order with the other collective calls; other work and other gatherings may follow.
  void start(std::uint64_t value) noexcept;
  /// Lets messages pass on; returns whether all values are there.
  [[nodiscard]] bool is_done() const noexcept;
  /// Waits. Shapes: result [ranks]; there until the next start().
  [[nodiscard]] std::span<const std::uint64_t> finish() noexcept;

 private:
  struct State;  // MPI's handle, and the values
  std::unique_ptr<State> state_;
};

/// What ranks choose themselves, unless the program fixes it. The same on all ranks.
struct Policy {
  enum class Division : std::uint8_t { faster, rows, inner };
  Division division = Division::faster;  ///< inner only if memory allows it
  bool may_read_files = true;            ///< ranks of one machine read records themselves; else rank 0 sends them
  std::uint64_t message_bytes = 16u << 20;
};

/// All ranks of the program. Every member but the plain questions is collective: all ranks call it, in one order.
/// Messages have at most Policy::message_bytes: MPI counts in 32 bits. Sums are 64 bits wide.
/// Threads: one at a time.
class Communicator {
 public:
  /// That a rank sends before it looks what it received: little, so that the buffers stay in few pages of memory, but
  /// for each other rank enough for a network.
  static constexpr std::uint64_t kRoundBytes = 8u << 20;
  static constexpr std::uint64_t kRoundBytesPerRank = 256u << 10;

  /// Starts MPI; the destructor ends it.
  explicit Communicator(const Policy& policy = {});
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Of later products.
  void set_policy(const Policy& policy);
  [[nodiscard]] const Policy& policy() const { return policy_; }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] const std::string& host() const { return host_; }
  /// Whether threads other than the first may make calls, one at a time: what products need, and not every MPI has.
  [[nodiscard]] bool serves_threads() const { return serves_threads_; }
  /// Ranks on this machine, and which of them this one is.
  [[nodiscard]] int local_size() const { return local_size_; }
  [[nodiscard]] int local_rank() const { return local_rank_; }
  /// Bytes that a rank may offer in one round of exchange(), to all others together.
  [[nodiscard]] std::uint64_t round_bytes() const { return round_bytes_; }

  [[nodiscard]] std::uint64_t sum(std::uint64_t value) const;
  [[nodiscard]] std::uint64_t max(std::uint64_t value) const;
  [[nodiscard]] std::uint64_t min(std::uint64_t value) const;
  void sum(std::span<std::uint64_t> values) const;
  void max(std::span<std::uint32_t> values) const;
  /// One value of every rank. Shapes: result [size()].
  [[nodiscard]] std::vector<std::uint64_t> gather(std::uint64_t value) const;  // in two halves: Gathering
  /// Bytes of every rank, of any length; for a few KB each. Shapes: result [size()].
  [[nodiscard]] std::vector<Bytes> gather(const Bytes& bytes) const;
  [[nodiscard]] Bytes broadcast(const Bytes& bytes, int from) const;
  void barrier() const;

  /// Cores that the ranks of this machine may use together, over this one's share of them; at least 1.
  [[nodiscard]] unsigned cores_per_rank() const;

  /// Puts what goes to each rank into to[rank], at most round_bytes() in all; returns whether there is more.
  using Produce = std::function<bool(std::vector<Bytes>& to)>;
  /// Takes what one rank sent in one round.
  using Consume = std::function<void(int from, std::span<const std::byte> bytes)>;

  /// Rounds of all ranks to all ranks until none has more. What a rank sends to another arrives in order.
  /// Memory: one round, and what one rank sends in it. Errors: what the functions throw; all other ranks leave at the
  /// same point with OtherRankFailed.
  void exchange(const Produce& produce, const Consume& consume) const;
  /// Whether the exception that is being handled left exchange(), so that no rank waits for this one. Asked once.
  [[nodiscard]] bool left_exchange() const { return std::exchange(left_exchange_, false); }

  /// Ends all ranks. Does not return.
  [[noreturn]] void abort(int code) const;

 private:
  void swap(const std::vector<Bytes>& to, std::span<const std::uint64_t> incoming, Bytes& received,
            const Consume& consume) const;

  int rank_ = 0;
  int size_ = 1;
  int local_rank_ = 0;
  int local_size_ = 1;
  bool serves_threads_ = false;
  std::string host_;
  Policy policy_;
  std::uint64_t message_bytes_ = 0;
  std::uint64_t round_bytes_ = kRoundBytes;
  mutable bool left_exchange_ = false;
};

}  // namespace spmm::mpi
