// A sink that counts the elements at the limit on the way to another one, for backends that do not count them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/run/run.hpp"
#include "spmm/stream.hpp"

namespace spmm {

/// Counts on the threads that write where the other sink lets itself be watched, else on those of the run, before
/// records are handed on. The other sink and the run must outlive it.
class SaturationSink : public Sink {
 public:
  SaturationSink(Sink& next, const Run& run);

  [[nodiscard]] std::uint32_t num_ranges() const override { return next_.num_ranges(); }
  [[nodiscard]] std::uint64_t max_blocks() const override { return next_.max_blocks(); }
  [[nodiscard]] bool keeps_records() const override { return next_.keeps_records(); }
  [[nodiscard]] bool takes_places() const override { return next_.takes_places(); }
  void set_ranges(std::span<const BlockRows> ranges) override { next_.set_ranges(ranges); }
  void append(std::span<const std::byte> records, std::function<void()> release) override;
  void append_to(std::uint32_t range, std::span<const std::byte> records, std::function<void()> release) override;
  void append_at(std::uint32_t range, std::uint64_t first_block, std::span<const std::byte> records,
                 std::function<void()> release) override;
  bool read_back(std::uint32_t range, std::uint64_t first_block, std::uint64_t count, std::byte* dst) override {
    return next_.read_back(range, first_block, count, dst);
  }
  void finish(const MatrixHeader& header) override { next_.finish(header); }
  void publish() override { next_.publish(); }

  /// Whether elements of the records to come may be kMaxVal; until it is said they may. Call it before any record.
  void set_may_saturate(bool may_saturate) { state_->may_saturate = may_saturate; }

  /// Elements that are kMaxVal so far; of all records behind finish().
  [[nodiscard]] std::uint64_t num_saturated() const { return state_->num_saturated; }

 private:
  struct State {
    std::atomic<std::uint64_t> num_saturated{0};
    std::atomic<bool> may_saturate{true};

    void add(std::span<const std::byte> records);
  };

  void count(std::span<const std::byte> records);

  Sink& next_;
  const Run& run_;
  std::shared_ptr<State> state_;  // shared with the threads that write, which may outlive this sink
  bool is_watched_;
};

}  // namespace spmm
