// --verify full: a proof of everything that goes by on its way to another sink.
#pragma once

#include <cstdint>
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

  void expect(std::uint32_t m, std::uint64_t most_blocks) override { next_.expect(m, most_blocks); }
  void append(std::span<const std::byte> records, std::function<void()> release) override;
  [[nodiscard]] bool takes_places() const override { return next_.takes_places(); }
  void append_at(std::uint64_t first_block, std::span<const std::byte> records, std::function<void()> release) override;
  void finish(const MatrixHeader& header) override { next_.finish(header); }
  void publish() override { next_.publish(); }
  bool watch(LookFn look) override {
    look_ = std::move(look);
    return true;
  }
  bool read_back(std::uint64_t first_block, std::uint64_t count, std::byte* dst) override {
    return next_.read_back(first_block, count, dst);
  }

  /// Behind finish(): decides every row. Values: num_blocks = of the whole result. Errors: VerifyError that says what
  /// differs; as Proof::finish().
  ProofResult check(std::uint64_t num_blocks, const Run& run);

 private:
  /// What the threads that write hold on to, longer than this lives.
  struct Watch {
    std::shared_mutex mutex{};
    ProofSink* sink = nullptr;  // null once it has gone
  };

  void look(std::uint64_t first_block, std::span<const std::byte> records);
  void look_in_pieces(std::uint64_t first_block, std::span<const std::byte> records);
  bool find_row(std::uint32_t row, const std::function<void(BlockIndex at, const std::byte* values)>& take);

  Sink& next_;
  Proof& proof_;
  MatrixHeader header_;
  const Run& run_;
  std::uint64_t record_bytes_;
  bool is_watched_ = false;  // the next sink shows its records
  LookFn look_;              // of who watches this sink; may be empty
  RecordOrder order_;
  std::uint64_t num_appended_ = 0;
  std::shared_ptr<Watch> watch_;
};

}  // namespace spmm
