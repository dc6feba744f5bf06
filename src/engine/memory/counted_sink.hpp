// A sink whose records stay in memory, counted against the memory limit of the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "base/memory/budget.hpp"
#include "base/records/release_once.hpp"
#include "spmm/stream.hpp"

namespace spmm {

/// Forwards to a sink that keeps records; the product's share of the memory grows by what is appended. Others are
/// passed by. `share` and `inner` must outlive it.
class CountedSink : public Sink {
 public:
  CountedSink(Sink& inner, MemoryShare& share) : inner_(inner), share_(share) {}

  [[nodiscard]] bool keeps_records() const override { return inner_.keeps_records(); }
  void expect(std::uint32_t m, std::uint64_t most_blocks) override { inner_.expect(m, most_blocks); }
  [[nodiscard]] bool takes_places() const override { return inner_.takes_places(); }

  /// Errors of both: OutOfMemory if the limit has no room for the records, and those of the inner sink.
  void append(std::span<const std::byte> records, std::function<void()> release) override {
    ReleaseOnce releaser(std::move(release));
    count(records);
    inner_.append(records, releaser.hand_on());
  }
  void append_at(std::uint64_t first_block, std::span<const std::byte> records,
                 std::function<void()> release) override {
    ReleaseOnce releaser(std::move(release));
    count(records);
    inner_.append_at(first_block, records, releaser.hand_on());
  }

  bool watch(LookFn look) override { return inner_.watch(std::move(look)); }
  bool read_back(std::uint64_t first_block, std::uint64_t count, std::byte* dst) override {
    return inner_.read_back(first_block, count, dst);
  }

  void finish(const MatrixHeader& header) override { inner_.finish(header); }
  void publish() override { inner_.publish(); }

 private:
  void count(std::span<const std::byte> records) {
    if (inner_.keeps_records()) share_.add_result(records.size());
  }

  Sink& inner_;
  MemoryShare& share_;
};

}  // namespace spmm
