// Slices of output on their way to the writers.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "base/records/release_once.hpp"

namespace spmm::io {

/// Bytes of the caller with their place in the file; released when the last piece is written or dropped.
struct Slice {
  std::uint64_t offset = 0;
  std::span<const std::byte> bytes;
  ReleaseOnce release;
};

/// What one writer does next; keeps its slice alive.
struct SlicePiece {
  std::shared_ptr<const Slice> slice;
  std::uint64_t offset;
  std::span<const std::byte> bytes;
};

/// Hands slices out in pieces and in order, so that several writers share one slice.
/// Threads: all members may be called from several threads. `release` is never called with the lock held.
class SliceQueue {
 public:
  explicit SliceQueue(std::uint64_t piece_bytes) : piece_bytes_(piece_bytes) {}

  /// Returns how many pieces of it no writer in pop() will take. Errors: rethrows the failure of a writer.
  std::size_t push(Slice slice);

  /// Waits for the next piece; nothing after close().
  std::optional<SlicePiece> pop();

  /// The next piece if there is one now.
  std::optional<SlicePiece> try_pop();

  /// A piece that pop() or try_pop() gave is written; call it after the piece was dropped.
  void done();

  /// The first failure of a writer: what is queued is dropped, later slices are refused.
  void fail(std::exception_ptr error);

  /// Waits until every piece is written. Errors: rethrows the failure of a writer.
  void drain();

  /// Drops what is queued and sends the writers home.
  void close();

 private:
  /// A slice of which there is something to hand out.
  struct Waiting {
    std::shared_ptr<const Slice> slice;
    std::size_t handed_out_bytes = 0;
  };
  std::optional<SlicePiece> next_piece();

  std::mutex mutex_;
  std::condition_variable work_;     ///< for pop()
  std::condition_variable drained_;  ///< for drain()
  std::size_t num_waiting_ = 0;      ///< in pop()
  std::size_t num_queued_ = 0;       ///< pieces not taken yet
  const std::uint64_t piece_bytes_;
  std::list<Waiting> slices_;  // takes no memory to be made or swapped, as fail() must not
  std::size_t active_ = 0;     ///< pieces being written
  std::exception_ptr failure_;
  bool closed_ = false;
};

}  // namespace spmm::io
