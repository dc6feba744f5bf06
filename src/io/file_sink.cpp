#include "io/file_sink.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/parallel.hpp"
#include "base/record_errors.hpp"
#include "base/text.hpp"
#include "base/workers.hpp"
#include "io/format.hpp"
#include "io/slice_queue.hpp"

namespace spmm {
namespace io {
namespace {

/// Records to a file: append() queues, writers of its own write at the final offsets.
class FileSink final : public Sink {
 public:
  FileSink(const std::filesystem::path& path, std::uint32_t m, const FileSinkOptions& options,
           const FileSinkTuning& tuning)
      : file_(path, options, tuning.temp, tuning.mode), m_(m), tuning_(tuning), queue_(tuning.piece_bytes) {
    writers_.reserve(tuning.num_writers);
  }
  ~FileSink() override { queue_.close(); }

  void append(std::span<const std::byte> records, std::function<void()> release) override {
    Slice slice{.offset = end_bytes_, .bytes = records, .release = ReleaseOnce(std::move(release))};
    if (records.size() % record_bytes() != 0) {
      throw std::logic_error(text(file_.name(), ": ", records.size(), " bytes are not whole records"));
    }
    check_num_output_blocks(num_blocks() + records.size() / record_bytes());
    file_.expect_bytes(end_bytes_ + records.size());
    const std::size_t num_left = queue_.push(std::move(slice));
    end_bytes_ += records.size();
    start_writers(num_left);
    if (!writers_.empty()) return;
    while (std::optional<Piece> piece = queue_.try_pop()) write_piece(piece);
  }

  void finish(const MatrixHeader& header) override {
    queue_.drain();
    if (header.m != m_ || header.num_blocks != num_blocks()) {
      throw std::logic_error(text(file_.name(), ": finish() with ", header.num_blocks, " blocks of side ", header.m,
                                  " after ", num_blocks(), " of side ", m_));
    }
    file_.finish(header);
  }

  void publish() override { file_.publish(); }

 private:
  [[nodiscard]] std::uint64_t record_bytes() const { return output_record_bytes(m_); }
  [[nodiscard]] std::uint64_t num_blocks() const { return (end_bytes_ - kHeaderBytes) / record_bytes(); }

  /// A writer for each piece that no waiting one takes, but no more than pieces so far but one: small products need no
  /// threads. Where none can be started, append() writes.
  void start_writers(std::size_t num_left) {
    for (; num_left > 0 && may_start_ && writers_.size() < tuning_.num_writers &&
           (writers_.size() + 1) * tuning_.piece_bytes < end_bytes_;
         --num_left) {
      std::jthread writer = start_thread([this] { write_pieces(); });
      may_start_ = writer.joinable();
      if (may_start_) writers_.push_back(std::move(writer));
    }
  }

  void write_pieces() {
    while (std::optional<Piece> piece = queue_.pop()) write_piece(piece);
  }

  void write_piece(std::optional<Piece>& piece) {
    try {
      file_.write_at(piece->offset, piece->bytes);
    } catch (...) {
      queue_.fail(std::current_exception());
    }
    piece.reset();  // releases the slice with its last piece, before finish() may return
    queue_.done();
  }

  OutputFile file_;
  std::uint32_t m_;
  FileSinkTuning tuning_;
  bool may_start_ = true;  ///< false once the system has refused a thread
  std::uint64_t end_bytes_ = kHeaderBytes;
  SliceQueue queue_;
  std::vector<std::jthread> writers_;  // last: joined before anything else goes
};

}  // namespace

FileSinkTuning fastest_tuning(unsigned num_cores) {
  if (num_cores < kMinMappedWriters) return {};
  return {.mode = WriteMode::mapped, .num_writers = std::min(num_cores, kMaxMappedWriters)};
}

std::unique_ptr<Sink> open_tuned_file_sink(const std::filesystem::path& path, std::uint32_t m,
                                           const FileSinkOptions& options, const FileSinkTuning& tuning) {
  return std::make_unique<FileSink>(path, m, options, tuning);
}

}  // namespace io

std::unique_ptr<Sink> open_file_sink(const std::filesystem::path& path, std::uint32_t m,
                                     const FileSinkOptions& options) {
  return io::open_tuned_file_sink(path, m, options, io::fastest_tuning(usable_cores()));
}

}  // namespace spmm
