// The result of a distributed product as a folder of parts.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "io/parts/files.hpp"
#include "io/parts/folder.hpp"
#include "io/system/descriptor.hpp"
#include "mpi/output/result.hpp"

namespace spmm::mpi {

/// Rank 0 makes, locks, publishes and removes the folder; every rank writes the parts of its own block rows there,
/// which follow each other, so that no rank waits for the sizes of others. What one process writes at once is cut into
/// parts by its engine (Sink::set_ranges); rounds make more than one of such products, and parts that go on from one to
/// the next. Threads: MPI is called from the thread that hands on records.
class PartsOutput final : public ResultOutput, private Sink {
 public:
  /// Values: num_parts >= 1, the same on all ranks; num_writers = threads of this rank that may write.
  PartsOutput(const Communicator& ranks, const FileSinkOptions& options, std::uint32_t num_parts, unsigned num_writers);

  void create(const std::filesystem::path& path) override;
  [[nodiscard]] Bytes ticket() const override;
  void open(const Bytes& ticket) override;

  [[nodiscard]] RangeOrder order() const override { return order_; }
  void start(const Division& division, const MatrixHeader& header) override;
  [[nodiscard]] Sink& sink() override { return *this; }
  [[nodiscard]] std::uint64_t kept_bytes() const override { return 0; }
  void open_until(std::uint32_t round) override;
  void close_open_rounds() override;
  void give_up() override { news_->send(); }

  void settle() override {}
  void close_here() override;
  void gather() override;
  void make_visible() override;

  [[nodiscard]] std::uint64_t num_blocks() const override { return num_blocks_; }
  [[nodiscard]] std::uint64_t own_num_blocks() const override { return own_num_blocks_; }
  [[nodiscard]] std::vector<ResultPart> parts() const override { return parts_; }
  [[nodiscard]] double write_s() const override { return write_s_; }

 private:
  // As the sink of one product: its ranges are the parts that it fills.
  [[nodiscard]] std::uint32_t num_ranges() const override { return filled_.size(); }
  [[nodiscard]] std::uint64_t max_blocks() const override { return ~std::uint64_t{0}; }
  void set_ranges(std::span<const BlockRows> ranges) override;
  void append(std::span<const std::byte> records, std::function<void()> release) override;
  void append_to(std::uint32_t range, std::span<const std::byte> records, std::function<void()> release) override;
  [[nodiscard]] bool takes_places() const override { return true; }
  void append_at(std::uint32_t range, std::uint64_t first_block, std::span<const std::byte> records,
                 std::function<void()> release) override;
  void finish(const MatrixHeader&) override {}
  void publish() override {}

  [[nodiscard]] bool has_parts() const { return files_ != nullptr; }
  /// Block rows of this rank in rounds [begin, end).
  [[nodiscard]] BlockRows rows_of(std::uint32_t begin, std::uint32_t end) const;
  void check_others() const;

  const Communicator& ranks_;
  FileSinkOptions options_;
  std::uint32_t num_parts_;
  unsigned num_writers_;
  RangeOrder order_;
  std::string name_;
  std::string parent_;                       ///< for messages
  std::unique_ptr<io::PartsFolder> folder_;  // of rank 0
  io::Descriptor opened_;                    // of the other ranks
  std::unique_ptr<io::PartFiles> files_;     // none where the rank has no parts
  std::unique_ptr<FailureMessage> news_;
  const Division* division_ = nullptr;
  MatrixHeader header_{};
  std::uint32_t round_ = 0;
  std::uint32_t open_end_ = 0;
  NumberRange filled_;                 // parts of this rank, from 0
  BlockRows open_rows_;                // that they get
  std::uint32_t first_row_ = 0;        // of the first of them, which may go on from earlier rounds
  std::uint64_t blocks_before_ = 0;    // in that one
  std::vector<ResultPart> own_parts_;  // finished
  std::vector<ResultPart> parts_;
  std::uint64_t num_blocks_ = 0;
  std::uint64_t own_num_blocks_ = 0;
  double write_s_ = 0;
};

}  // namespace spmm::mpi
