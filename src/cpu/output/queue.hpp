// Brings finished output from several workers to the sink in order, through a fixed number of buffers.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "base/records/head.hpp"
#include "base/records/selector.hpp"
#include "base/run/output.hpp"
#include "base/run/run.hpp"
#include "spmm/stream.hpp"

namespace spmm::cpu {

class RecordWriter;

/// Ranges are numbered as they are handed out; their records reach the sink in that order. A range may fill any number
/// of buffers. The last free buffer is kept for the oldest unfinished range, so that one always gets on.
/// Memory: num_buffers buffers for the whole run; they outlive the queue until the sink has released them.
/// Threads: one writer a worker; num_...() when all have ended.
class OutputQueue {
 public:
  /// Output of a range while a sink gives buffers back at once: the same part of the same buffer is written again and
  /// again and stays in the second-level cache, and no fresh pages are allocated. Where buffers stay away (a file is
  /// written, or an older range is not yet through) ranges are as large as buffers. Multiply with 4 MB, 1 MB, 512 and
  /// 256 KB, two quiet cores, to /dev/null: P2 13.9, 13.3, 14.0, 15.0 ms, P3 57, 46, 48, 55, P5 160, 143, 156.
  static constexpr std::uint64_t kCachedBytes = 1u << 20;

  OutputQueue(Output& output, std::uint64_t num_buffers, std::uint64_t buffer_bytes, std::uint64_t record_bytes,
              const Run& run);

  /// Calls work() on every thread of the run until all return. A failure of one stops the others and is thrown.
  void run(const std::function<void(RecordWriter& out)>& work);

  /// Output that the next range should not pass. Values: for the claim of RecordWriter::start() alone.
  [[nodiscard]] std::uint64_t useful_bytes() const;

  [[nodiscard]] std::uint64_t num_records() const { return num_records_; }
  [[nodiscard]] std::uint64_t num_appended() const { return num_appended_; }
  /// Elements that are kMaxVal, of records that may have some.
  [[nodiscard]] std::uint64_t num_saturated() const { return num_saturated_; }
  /// Elements that a selection has dropped, as in ProductStats.
  [[nodiscard]] std::uint64_t num_dropped() const { return num_dropped_; }

 private:
  friend RecordWriter;

  /// What a range has written into its present buffer.
  struct Piece {
    std::byte* data = nullptr;
    std::uint64_t bytes = 0;
    std::uint64_t num_saturated = 0;
  };
  struct Buffers {
    std::mutex mutex;
    std::condition_variable buffer;  // for who starts a range: each wants one buffer, and all want the same
    std::condition_variable turn;    // for the rest, which few wait for
    AlignedArray<std::byte> memory;
    std::vector<std::byte*> free;  // the last one is the warmest
  };
  using Lock = std::unique_lock<std::mutex>;

  template <class Ready>
  void wait(Lock& lock, std::condition_variable& changed, const Ready& ready);
  std::byte* take_buffer();
  void append(Lock& lock, const Piece& piece);
  void deliver_finished(Lock& lock);

  Output& output_;
  const Run& run_;
  const std::uint64_t num_buffers_;
  const std::uint64_t buffer_bytes_;
  const std::uint64_t record_bytes_;
  const std::shared_ptr<Buffers> buffers_;
  // Guarded by buffers_->mutex:
  std::uint64_t next_number_ = 0;
  std::uint64_t num_delivered_ = 0;  // ranges whose records are with the sink
  bool appending_ = false;
  bool failed_ = false;
  std::map<std::uint64_t, Piece> finished_;  // the last pieces of ranges by their numbers
  std::uint64_t num_records_ = 0;
  std::uint64_t num_appended_ = 0;
  std::uint64_t num_saturated_ = 0;
  std::uint64_t num_dropped_ = 0;
};

/// One worker's way to the sink, range after range. A selection is applied in the buffer. Errors: Interrupted, what the
/// sink throws, and what ends a worker after another one has failed.
class RecordWriter {
 public:
  explicit RecordWriter(OutputQueue& queue) : queue_(queue) {}
  /// Drops elements from now on. Values: m = side of the blocks.
  void set_selection(const Selection& selection, std::uint32_t m) {
    if (!selection.is_all()) selector_.emplace(selection, m);
  }

  /// Waits for a buffer, then calls claim() under the lock of the queue, which picks the next range or returns false at
  /// the end. Returns whether there is a range.
  bool start(const std::function<bool()>& claim);
  void finish();
  /// No more records of this block row come, or of its columns in this range.
  void end_row();

  /// Records that fit now, at least one: hands the buffer on, when all older ranges are through, if it is full.
  std::uint64_t room();
  [[nodiscard]] std::byte* position() const { return piece_.data + piece_.bytes; }
  /// Begin of the present buffer.
  [[nodiscard]] std::byte* buffer() const { return piece_.data; }
  void advance_to(const std::byte* end) {
    const auto bytes = static_cast<std::uint64_t>(end - piece_.data);
    if (!selector_) count({position(), bytes - piece_.bytes});
    piece_.bytes = bytes;
  }
  /// Copies records, one by one: there may be room for less than all.
  void append(const std::byte* from, const std::byte* end);
  /// Whether elements of the records from here on may be kMaxVal; until it is said they may.
  void set_may_saturate(bool may_saturate) { may_saturate_ = may_saturate; }

  /// Number and output of the present range.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  [[nodiscard]] std::uint64_t total_bytes() const { return sent_bytes_ + piece_.bytes; }

 private:
  void select();
  void count(std::span<const std::byte> records) {
    if (may_saturate_) piece_.num_saturated += count_saturated(records);
  }

  OutputQueue& queue_;
  std::optional<RecordSelector> selector_;  // if elements are dropped
  std::uint64_t selected_bytes_ = 0;        // of the present buffer
  std::uint64_t number_ = 0;
  OutputQueue::Piece piece_;
  std::uint64_t sent_bytes_ = 0;  // in buffers before this one
  bool may_saturate_ = true;
};

}  // namespace spmm::cpu
