// The result of a distributed product as one file.
#pragma once

#include <memory>

#include "mpi/output/result.hpp"
#include "mpi/output/round_sink.hpp"
#include "mpi/output/shared_file.hpp"

namespace spmm::mpi {

/// Ranks have ranges in turns and write them where all ranges before them end.
class OneFileOutput final : public ResultOutput {
 public:
  /// Values: limit_bytes = of ranges that wait for their place.
  OneFileOutput(const Communicator& ranks, const FileSinkOptions& options, std::uint64_t limit_bytes)
      : ranks_(ranks), options_(options), limit_bytes_(limit_bytes) {}

  void create(const std::filesystem::path& path) override { file_.create(path, options_); }
  [[nodiscard]] Bytes ticket() const override { return file_.ticket(); }
  void open(const Bytes& ticket) override { file_.open(ticket); }

  [[nodiscard]] RangeOrder order() const override;
  void start(const Division& division, const MatrixHeader& header) override;
  [[nodiscard]] Sink& sink() override { return *rounds_; }
  [[nodiscard]] std::uint64_t kept_bytes() const override;
  void open_until(std::uint32_t round) override { rounds_->open_until(round); }
  void close_open_rounds() override { rounds_->close_open_rounds(); }
  void give_up() override { rounds_->give_up(); }

  void settle() override { rounds_->send_fragments(); }
  void close_here() override;
  void gather() override {}
  void make_visible() override;

  [[nodiscard]] std::uint64_t num_blocks() const override;
  [[nodiscard]] std::uint64_t own_num_blocks() const override;
  [[nodiscard]] double wait_s() const override { return rounds_->wait_s(); }
  [[nodiscard]] double write_s() const override { return rounds_->write_s(); }

 private:
  const Communicator& ranks_;
  FileSinkOptions options_;
  std::uint64_t limit_bytes_;
  SharedOutput file_;
  MatrixHeader header_{};
  std::uint64_t range_bytes_ = 0;  ///< at most
  std::unique_ptr<RoundSink> rounds_;
};

}  // namespace spmm::mpi
