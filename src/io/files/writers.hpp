// Threads that write slices of output, started as there is work for them.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/run/stage_clock.hpp"
#include "spmm/stream.hpp"

namespace spmm::io {

/// Hands slices out in pieces and in order, so that several threads share one slice.
/// Threads: one caller at a time; the given function runs on several threads at once. No slice is released with the
/// lock held.
class Writers {
 public:
  using Write = std::function<void(std::uint64_t offset, std::span<const std::byte> bytes)>;

  /// Values: num_threads = at most; 0: push() itself writes. `write` may throw. clock may be null.
  Writers(unsigned num_threads, std::uint64_t piece_bytes, Write write, StageClock* clock = nullptr);
  /// Drops what is queued.
  ~Writers();
  Writers(const Writers&) = delete;
  Writers& operator=(const Writers&) = delete;

  /// Queues bytes with their place in the file; they are released when the last piece is written or dropped.
  /// Errors: rethrows the first failure of `write`, after which everything is dropped.
  void push(std::uint64_t offset, std::span<const std::byte> bytes, Release release);

  /// Waits until everything is written. Errors: as push().
  void drain();

 private:
  /// A part of a slice that one thread writes. The slice is released with the last one of its pieces.
  struct Piece {
    std::shared_ptr<Release> slice;
    std::uint64_t offset;
    std::span<const std::byte> bytes;
  };

  void work(bool waits);
  void fail(std::exception_ptr error);

  unsigned num_threads_;
  std::uint64_t piece_bytes_;
  Write write_;
  StageClock* clock_;
  bool may_start_ = true;  ///< false once the system has refused a thread
  std::size_t num_pushed_ = 0;
  std::mutex mutex_;
  // Guarded by mutex_:
  std::condition_variable work_;
  std::condition_variable drained_;
  std::size_t num_idle_ = 0;    ///< threads that wait for a piece
  std::size_t num_active_ = 0;  ///< pieces being written
  std::list<Piece> pieces_;     // takes no memory to be made or swapped, as fail() must not
  std::exception_ptr failure_;
  bool closed_ = false;
  std::vector<std::jthread> threads_;  // last: joined before anything else goes
};

}  // namespace spmm::io
