// A sink behind which every buffer is released once, whatever happens in front of it.
#pragma once

#include "spmm/stream.hpp"

namespace spmm {

/// Forwards to the caller's sink. Where that sink drops a `release` without calling it - an exception between taking
/// the records and queueing them is enough - it is called here, as soon as the last copy is gone: a thread that waits
/// for its buffer would otherwise wait for ever.
class ReleasingSink : public Sink {
 public:
  explicit ReleasingSink(Sink& inner) : inner_(inner) {}

  [[nodiscard]] bool keeps_records() const override { return inner_.keeps_records(); }
  void expect(std::uint32_t m, std::uint64_t most_blocks) override { inner_.expect(m, most_blocks); }
  void append(std::span<const std::byte> records, std::function<void()> release) override;
  [[nodiscard]] bool takes_places() const override { return inner_.takes_places(); }
  void append_at(std::uint64_t first_block, std::span<const std::byte> records, std::function<void()> release) override;
  bool watch(LookFn look) override { return inner_.watch(std::move(look)); }
  bool read_back(std::uint64_t first_block, std::uint64_t count, std::byte* dst) override {
    return inner_.read_back(first_block, count, dst);
  }
  void finish(const MatrixHeader& header) override {
    was_used_ = true;
    inner_.finish(header);
  }
  void publish() override { inner_.publish(); }

  /// Whether anything has been written.
  [[nodiscard]] bool was_used() const { return was_used_; }

 private:
  std::function<void()> made_once(std::function<void()> release);

  Sink& inner_;
  bool was_used_ = false;
};

}  // namespace spmm
