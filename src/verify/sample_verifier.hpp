// --verify: recomputes some blocks of C, and some absent ones, from the inputs alone.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "base/run/run.hpp"
#include "spmm/stream.hpp"

namespace spmm {

/// What is checked, and within how much memory.
struct VerifySettings {
  std::uint64_t num_blocks = 0;  ///< of C that are sampled at most, and as many absent ones
  std::uint64_t seed = 1;
  std::uint64_t sample_bytes = 0;  ///< while the product is computed: bounds the number of blocks, at least one
  std::uint64_t check_bytes = 0;   ///< in check() in addition; less makes it read the inputs more often
};

/// Settings for a product with this limit of host memory (0 = none): sample_bytes must be left to the verifier by the
/// product, check_bytes is free again once the product is computed.
VerifySettings verify_settings(std::uint64_t num_blocks, std::uint64_t seed, std::uint32_t m,
                               std::uint64_t memory_limit_bytes);

/// A sink that passes everything on to another one and remembers a uniform sample of the records that go by.
class VerifyingSink : public Sink {
 public:
  /// Samples no more blocks than settings.sample_bytes hold, and no more than the product can have; as many absent ones
  /// are sought among (block row of a random block of A, block column of a random block of B).
  /// Errors: Interrupted, OutOfMemory, what the sources throw.
  VerifyingSink(Sink& next, const Source& a, const Source& b, const VerifySettings& settings, const Run& run);

  void expect(std::uint32_t m, std::uint64_t most_blocks) override { next_.expect(m, most_blocks); }
  /// Values: records ascend over all calls, as those of every product do.
  void append(std::span<const std::byte> records, std::function<void()> release) override;
  bool watch(LookFn look) override { return next_.watch(std::move(look)); }
  void finish(const MatrixHeader& header) override { next_.finish(header); }
  void publish() override { next_.publish(); }

  /// Recomputes the sampled blocks and the absent candidates. Returns the number of blocks checked.
  /// Memory: settings.check_bytes, however long the rows and columns are (never less than two blocks and one read).
  /// Errors: VerifyError names the first element that differs; Interrupted.
  std::uint64_t check(const Run& run);

 private:
  struct Batch;

  void sample(const std::byte* records, std::uint64_t count);
  /// Drops the candidates that are among the records.
  void strike_out_present(const std::byte* records, std::uint64_t count);
  /// Brings all candidates that were not seen to the front; returns how many there are.
  std::uint64_t gather_absent();
  void recompute(Batch& batch, const Run& run) const;
  void compare(const Batch& batch) const;
  std::uint64_t random_below(std::uint64_t bound);

  Sink& next_;
  const Source& a_;
  const Source& b_;
  std::uint32_t m_;
  std::uint64_t check_bytes_;
  std::uint64_t wanted_;
  std::uint64_t random_state_;
  std::uint64_t seen_ = 0;
  std::uint64_t num_samples_ = 0;
  AlignedArray<BlockIndex> sample_at_;         // [wanted]
  AlignedArray<std::uint32_t> sample_values_;  // [wanted, m, m]
  AlignedArray<BlockIndex> candidates_;        // ascending; not seen: the first num_absent_, open: from next_candidate_
  std::uint64_t num_absent_ = 0;
  std::uint64_t next_candidate_ = 0;
};

}  // namespace spmm
