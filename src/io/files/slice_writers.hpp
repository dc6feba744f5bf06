// Threads that write slices, started as there is work for them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "base/run/stage_clock.hpp"
#include "io/files/slice_queue.hpp"
#include "spmm/types.hpp"

namespace spmm::io {

/// Bytes of whole output records, at least one, and no more than `bytes` otherwise.
inline std::uint64_t whole_records(std::uint64_t bytes, std::uint32_t m) {
  const std::uint64_t record = output_record_bytes(m);
  return std::max<std::uint64_t>(1, bytes / record) * record;
}

/// Threads: write_piece is called from several threads at once; the rest by one caller at a time.
class SliceWriters {
 public:
  /// Values: num_writers = threads at most; 0: push() itself writes. write_piece may throw. clock may be null.
  SliceWriters(unsigned num_writers, std::uint64_t piece_bytes, std::function<void(const SlicePiece&)> write_piece,
               StageClock* clock = nullptr);
  ~SliceWriters() { queue_.close(); }
  SliceWriters(const SliceWriters&) = delete;
  SliceWriters& operator=(const SliceWriters&) = delete;

  /// Queues a slice. Errors: rethrows the failure of a writer.
  void push(Slice slice);

  /// Waits until everything is written. Errors: as push().
  void drain() { queue_.drain(); }

 private:
  void start_writers(std::size_t num_left);
  void write(std::optional<SlicePiece>& piece);

  unsigned num_writers_;
  std::uint64_t piece_bytes_;
  std::function<void(const SlicePiece&)> write_piece_;
  StageClock* clock_;
  bool may_start_ = true;  ///< false once the system has refused a thread
  std::uint64_t pushed_bytes_ = 0;
  SliceQueue queue_;
  std::vector<std::jthread> writers_;  // last: joined before anything else goes
};

}  // namespace spmm::io
