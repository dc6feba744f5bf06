// --verify full: a proof of everything that goes by on its way to another sink.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <shared_mutex>
#include <span>
#include <vector>

#include "base/run/run.hpp"
#include "spmm/stream.hpp"
#include "verify/proof.hpp"
#include "verify/record_order.hpp"

namespace spmm {

/// Passes everything on. The threads that write the records read them first, just before they do, if the next
/// sink can be checked; else in append(), by the threads of the run. Threads: as any sink.
class ProofSink : public Sink {
 public:
  /// Values: proof, next and run outlive this.
  ProofSink(Sink& next, Proof& proof, const MatrixHeader& header, const Run& run);
  /// No record is read any more when this returns.
  ~ProofSink() override;
  ProofSink(const ProofSink&) = delete;
  ProofSink& operator=(const ProofSink&) = delete;

  [[nodiscard]] std::uint32_t num_ranges() const override { return next_.num_ranges(); }
  [[nodiscard]] std::uint64_t max_blocks() const override { return next_.max_blocks(); }
  void set_ranges(std::span<const BlockRows> ranges) override;
  void append(std::span<const std::byte> records, std::function<void()> release) override;
  void append_to(std::uint32_t range, std::span<const std::byte> records, std::function<void()> release) override;
  [[nodiscard]] bool takes_places() const override { return next_.takes_places(); }
  void append_at(std::uint32_t range, std::uint64_t first_block, std::span<const std::byte> records,
                 std::function<void()> release) override;
  void finish(const MatrixHeader& header) override { next_.finish(header); }
  void publish() override { next_.publish(); }
  bool watch(LookFn look) override {
    look_ = std::move(look);
    return true;
  }
  bool read_back(std::uint32_t range, std::uint64_t first_block, std::uint64_t count, std::byte* dst) override {
    return next_.read_back(range, first_block, count, dst);
  }

  /// Behind finish(): decides every row. Values: num_blocks = of the whole result. Errors: VerifyError that says what
  /// differs; as Proof::finish().
  ProofResult check(std::uint64_t num_blocks, const Run& run);

 private:
  /// One range of the result.
  struct Range {
    explicit Range(std::uint64_t record_bytes) : order(record_bytes) {}
    BlockRows rows{.begin = 0, .end = 0xFFFF'FFFFu};
    RecordOrder order;
    std::uint64_t num_appended = 0;
  };
  /// What the threads that write hold on to, longer than this lives.
  struct Watch {
    std::shared_mutex mutex{};
    ProofSink* sink = nullptr;  // null once it has gone
  };

  void set_num_ranges(std::size_t count);
  void look(std::uint32_t range, std::uint64_t first_block, std::span<const std::byte> records);
  void look_in_pieces(std::uint32_t range, std::uint64_t first_block, std::span<const std::byte> records);
  bool find_row(std::uint32_t row, const std::function<void(BlockIndex at, const std::byte* values)>& take);

  Sink& next_;
  Proof& proof_;
  MatrixHeader header_;
  const Run& run_;
  std::uint64_t record_bytes_;
  bool is_watched_ = false;  // the next sink shows its records
  LookFn look_;              // of who watches this sink; may be empty
  std::deque<Range> ranges_;
  std::shared_ptr<Watch> watch_;
};

}  // namespace spmm
