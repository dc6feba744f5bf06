// The records of one product on their way to the caller's sink.
#pragma once

#include <condition_variable>
#include <cstddef>
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

/// Called with whole records, in front of which there are first_block blocks of the result.
using LookFn = std::function<void(std::uint64_t first_block, std::span<const std::byte> records)>;

/// What backends write into: counts results that stay in memory, shows records to a check, and knows what the caller's
/// sink still holds. Threads: as any sink.
class Output final : public Sink {
 public:
  /// Values: memory grows by what the sink keeps. Both must outlive it.
  Output(Sink& sink, MemoryShare& memory) : sink_(sink), memory_(memory), held_(std::make_shared<Held>()) {}

  /// From now on `look` sees all records before the sink does.
  void show_to(LookFn look) { look_ = std::move(look); }

  [[nodiscard]] bool keeps_records() const override { return sink_.keeps_records(); }
  void expect(std::uint32_t m, std::uint64_t most_blocks) override {
    if (!in_ranges_) sink_.expect(m, most_blocks);
  }
  [[nodiscard]] bool takes_places() const override { return sink_.takes_places(); }
  /// Errors: OutOfMemory if the limit has no room for records that stay; those of the sink and of the check.
  void write(std::uint64_t first_block, std::span<const std::byte> records, Release release) override;
  void finish(const MatrixHeader& header) override {
    was_used_ = true;
    sink_.finish(header);
  }
  bool read_back(std::uint64_t first_block, std::uint64_t count, std::byte* dst) override {
    return sink_.read_back(first_block, count, dst);
  }
  void publish() override { sink_.publish(); }

  /// Whether anything has been written.
  [[nodiscard]] bool was_used() const { return was_used_; }

  /// Out of core: the next records are those of a range, behind this many blocks.
  void set_begin(std::uint64_t num_blocks) {
    begin_ = num_blocks;
    in_ranges_ = true;
  }
  /// Waits until the sink holds nothing any more. Errors: Interrupted.
  void wait_until_released(const Run& run) const;

 private:
  struct Held {
    std::mutex mutex{};
    std::condition_variable changed{};
    std::uint64_t count = 0;
  };

  Sink& sink_;
  MemoryShare& memory_;
  LookFn look_;  ///< may be empty
  bool was_used_ = false;
  bool in_ranges_ = false;
  std::uint64_t begin_ = 0;
  std::shared_ptr<Held> held_;
};

}  // namespace spmm
