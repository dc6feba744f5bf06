// The records of a product on their way from a backend to the caller's sink.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "base/memory/budget.hpp"
#include "base/run/run.hpp"
#include "spmm/stream.hpp"

namespace spmm {

/// Counts results that stay in memory, shows records to a proof, and knows what the sink still holds. Threads: as a
/// sink.
class Output {
 public:
  /// Called with whole records, in front of which there are first_block blocks of the result.
  using Look = std::function<void(std::uint64_t first_block, std::span<const std::byte> records)>;

  /// Values: memory = grows by what the sink keeps; null: nothing counts. Both must outlive it.
  explicit Output(Sink& sink, MemoryShare* memory = nullptr)
      : sink_(sink), memory_(sink.keeps_records() ? memory : nullptr), held_(std::make_shared<Held>()) {}

  /// From now on `look` sees all records before the sink does.
  void show_to(Look look) { look_ = std::move(look); }

  /// Out of core: the next records are those of a range, behind this many blocks.
  void set_begin(std::uint64_t num_blocks) {
    begin_ = num_blocks;
    is_in_ranges_ = true;
  }

  /// As Sink::expect(); of a range: nothing.
  void expect(std::uint32_t m, std::uint64_t most_blocks) {
    if (!is_in_ranges_) sink_.expect(m, most_blocks);
  }
  [[nodiscard]] bool takes_places() const { return sink_.takes_places(); }

  /// As Sink::write(). Errors: also OutOfMemory if the limit has no room for records that stay; those of the proof.
  void write(std::uint64_t first_block, std::span<const std::byte> records, Release release) {
    was_used_ = true;
    if (memory_ != nullptr) memory_->add_result(records.size());
    if (look_) look_(begin_ + first_block, records);
    {
      const std::lock_guard lock(held_->mutex);
      ++held_->count;
    }
    // The sink may hold it longer than this lives.
    sink_.write(begin_ + first_block, records, [held = held_, release = std::move(release)]() mutable {
      release();
      const std::lock_guard lock(held->mutex);
      --held->count;
      held->changed.notify_all();
    });
  }

  /// Whether anything has been written.
  [[nodiscard]] bool was_used() const { return was_used_; }

  /// Waits until the sink holds nothing any more. Errors: Interrupted.
  void wait_until_released(const Run& run) const {
    constexpr auto kCancelPeriod = std::chrono::milliseconds(50);
    std::unique_lock lock(held_->mutex);
    while (held_->count != 0) {
      held_->changed.wait_for(lock, kCancelPeriod);
      run.check_cancelled();
    }
  }

 private:
  struct Held {
    std::mutex mutex{};
    std::condition_variable changed{};
    std::uint64_t count = 0;
  };

  Sink& sink_;
  MemoryShare* memory_;
  Look look_;  // may be empty
  bool was_used_ = false;
  bool is_in_ranges_ = false;
  std::uint64_t begin_ = 0;
  std::shared_ptr<Held> held_;
};

}  // namespace spmm
