// --verify: recomputes some result blocks, and some absent ones, from the inputs alone.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/run.hpp"
#include "spmm/stream.hpp"

namespace spmm {

/// A sink that passes everything on to another one and remembers a uniform sample of the records that go by.
class VerifyingSink : public Sink {
 public:
  /// `count` result blocks are sampled; as many absent ones are sought among (block row of a random block of A, block
  /// column of a random block of B). Memory: proportional to count.
  VerifyingSink(Sink& next, const Source& a, const Source& b, std::uint64_t count, std::uint64_t seed);

  void append(std::span<const std::byte> records, std::function<void()> release) override;
  void finish(const MatrixHeader& header) override { next_.finish(header); }
  void publish() override { next_.publish(); }

  /// Recomputes the sampled blocks and the absent candidates. Returns the number of blocks checked.
  /// Memory: the block rows of A and block columns of B that hold a sample.
  /// Errors: VerifyError names the first element that differs.
  std::uint64_t check(const Run& run) const;

 private:
  struct Sample {
    BlockIndex at;
    std::vector<std::uint32_t> values;  // [m, m]; empty = expected to be absent
  };

  void sample(const std::byte* records, std::uint64_t count);
  void strike_out_present(const std::byte* records, std::uint64_t count);
  std::uint64_t random_below(std::uint64_t bound);

  Sink& next_;
  const Source& a_;
  const Source& b_;
  std::uint32_t m_;
  std::uint64_t wanted_;
  std::uint64_t random_state_;
  std::uint64_t seen_ = 0;
  std::vector<Sample> samples_;
  std::vector<BlockIndex> absent_;  // sorted candidates not seen so far
};

}  // namespace spmm
