// A sink in front of one that wants ranges, for records that come in the order of the whole.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "spmm/stream.hpp"

namespace spmm {

/// Takes records as a sink of one range does and hands each on to its range: one range grows after the other.
class SplittingSink : public Sink {
 public:
  /// Values: ranges as in Sink::set_ranges(), which is called here. Shapes: blocks of m x m.
  SplittingSink(Sink& inner, std::vector<BlockRows> ranges, std::uint32_t m);

  [[nodiscard]] std::uint64_t max_blocks() const override { return inner_.max_blocks(); }
  void append(std::span<const std::byte> records, std::function<void()> release) override;
  void finish(const MatrixHeader& header) override { inner_.finish(header); }
  void publish() override { inner_.publish(); }

 private:
  Sink& inner_;
  std::vector<BlockRows> ranges_;
  std::uint64_t record_bytes_;
  std::uint32_t range_ = 0;  ///< of the last record
};

}  // namespace spmm
