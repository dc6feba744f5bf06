// Brings finished output from several workers to the sink in order, through a fixed number of buffers.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "base/records/saturated_count.hpp"
#include "base/run/run.hpp"
#include "spmm/stream.hpp"

namespace spmm::cpu {

/// Thrown into the other workers after one has failed; carries no message.
struct Stopped {};

/// Units of work are numbered as they are handed out; their output reaches the sink in that order. A unit may fill any
/// number of buffers. The last free buffer is kept for the oldest unfinished unit, so that one always gets on.
/// Memory: num_buffers buffers for the whole run; they outlive the queue until the sink has released them.
/// Threads: all members from any worker.
class OutputQueue {
 public:
  /// Output of a unit while a sink gives buffers back at once: the same part of the same buffer is written again and
  /// again and stays in the second-level cache, and no fresh pages are allocated. Where buffers stay away (a file is
  /// written, or an older unit is not yet through) units are as large as buffers. Multiply with 4 MB, 1 MB, 512 and 256
  /// KB, two quiet cores, to /dev/null: P2 13.9, 13.3, 14.0, 15.0 ms, P3 57, 46, 48, 55, P5 160, 143, 156.
  static constexpr std::uint64_t kCachedBytes = 1u << 20;

  /// A unit on its way: its number and the buffer it fills.
  struct Job {
    std::uint64_t number = 0;
    std::byte* data = nullptr;
    std::uint64_t used_bytes = 0;
    std::uint64_t sent_bytes = 0;     ///< in buffers before this one
    std::uint64_t num_saturated = 0;  ///< elements in this buffer that are kMaxVal

    [[nodiscard]] std::uint64_t total_bytes() const { return sent_bytes + used_bytes; }
  };

  OutputQueue(Sink& sink, std::uint64_t num_buffers, std::uint64_t buffer_bytes, std::uint64_t record_bytes,
              const Run& run);

  /// Waits for a buffer, then calls claim() under the lock, which picks the next unit or returns
  /// false at the end. Returns whether there is a job. Errors: Stopped, Interrupted.
  bool start(Job& job, const std::function<bool()>& claim);

  /// Output that the next unit should not pass. Values: for claim() alone, which is called under the lock.
  [[nodiscard]] std::uint64_t useful_bytes() const;

  /// Hands a full buffer of an unfinished unit to the sink, as soon as all older units are through, and gives the job
  /// an empty one. Errors: Stopped, Interrupted, what the sink throws.
  void flush(Job& job);

  /// Ends a unit. Errors: Stopped, what the sink throws.
  void finish(const Job& job);

  /// After the last unit: waits until the sink has released every buffer. Errors: Stopped, Interrupted.
  void wait_until_released();

  /// Runs `work` on every thread of the run until all return. A failure of one stops the others and is thrown.
  void run(const std::function<void()>& work);

  [[nodiscard]] std::uint64_t buffer_bytes() const { return buffer_bytes_; }
  [[nodiscard]] std::uint64_t num_records() const { return num_records_; }
  [[nodiscard]] std::uint64_t num_appended() const { return num_appended_; }
  /// Elements that are kMaxVal, of records that RecordWriter examined.
  [[nodiscard]] std::uint64_t num_saturated() const { return num_saturated_; }

 private:
  struct Buffers {
    std::mutex mutex;
    std::condition_variable buffer;  // for start(): each call wants one buffer, and all want the same
    std::condition_variable turn;    // for the rest, which few wait for
    AlignedArray<std::byte> memory;
    std::vector<std::byte*> free;  // the last one is the warmest
  };
  using Lock = std::unique_lock<std::mutex>;

  template <class Ready>
  void wait(Lock& lock, std::condition_variable& changed, const Ready& ready);
  void fail() noexcept;
  std::byte* take_buffer();
  void append(Lock& lock, const Job& job);
  void deliver_finished(Lock& lock);

  Sink& sink_;
  const Run& run_;
  std::uint64_t num_buffers_;
  std::uint64_t buffer_bytes_;
  std::uint64_t record_bytes_;
  std::shared_ptr<Buffers> buffers_;
  // Guarded by buffers_->mutex:
  std::uint64_t next_number_ = 0;
  std::uint64_t num_delivered_ = 0;  // units whose output is with the sink
  bool appending_ = false;
  bool failed_ = false;
  std::map<std::uint64_t, Job> finished_;
  std::uint64_t num_records_ = 0;
  std::uint64_t num_appended_ = 0;
  std::uint64_t num_saturated_ = 0;
};

/// The output of one job, record by record.
class RecordWriter {
 public:
  RecordWriter(OutputQueue& queue, OutputQueue::Job& job, std::uint64_t record_bytes)
      : queue_(queue), job_(job), record_bytes_(record_bytes) {}

  /// Records that fit now, at least one: hands the buffer on if it is full.
  std::uint64_t room();
  [[nodiscard]] std::byte* position() const { return job_.data + job_.used_bytes; }
  void advance_to(const std::byte* end) {
    const auto bytes = static_cast<std::uint64_t>(end - job_.data);
    if (may_saturate_) job_.num_saturated += count_saturated({position(), bytes - job_.used_bytes});
    job_.used_bytes = bytes;
  }
  /// Copies records, one by one: there may be room for less than all.
  void append(const std::byte* from, const std::byte* end);
  /// Whether elements of the records from here on may be kMaxVal; until it is said they may.
  void set_may_saturate(bool may_saturate) { may_saturate_ = may_saturate; }

 private:
  OutputQueue& queue_;
  OutputQueue::Job& job_;
  std::uint64_t record_bytes_;
  bool may_saturate_ = true;
};

}  // namespace spmm::cpu
