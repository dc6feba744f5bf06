#include "io/file_sink.hpp"

#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

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
      : file_(path, options, tuning.temp), m_(m), queue_(tuning.piece_bytes) {
    writers_.reserve(tuning.num_writers);
    for (unsigned w = 0; w < tuning.num_writers; ++w) {
      std::jthread writer = start_thread([this] { write_pieces(); });
      if (writer.joinable()) writers_.push_back(std::move(writer));  // else: fewer, and with none append() writes
    }
  }
  ~FileSink() override { queue_.close(); }

  void append(std::span<const std::byte> records, std::function<void()> release) override {
    Slice slice{.offset = end_bytes_, .bytes = records, .release = ReleaseOnce(std::move(release))};
    if (records.size() % record_bytes() != 0) {
      throw std::logic_error(text(file_.name(), ": ", records.size(), " bytes are not whole records"));
    }
    check_num_output_blocks(num_blocks() + records.size() / record_bytes());
    file_.expect_bytes(end_bytes_ + records.size());
    queue_.push(std::move(slice));
    end_bytes_ += records.size();
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
  std::uint64_t end_bytes_ = kHeaderBytes;
  SliceQueue queue_;
  std::vector<std::jthread> writers_;  // last: joined before anything else goes
};

}  // namespace

std::unique_ptr<Sink> open_tuned_file_sink(const std::filesystem::path& path, std::uint32_t m,
                                           const FileSinkOptions& options, const FileSinkTuning& tuning) {
  return std::make_unique<FileSink>(path, m, options, tuning);
}

}  // namespace io

std::unique_ptr<Sink> open_file_sink(const std::filesystem::path& path, std::uint32_t m,
                                     const FileSinkOptions& options) {
  return io::open_tuned_file_sink(path, m, options, {});
}

}  // namespace spmm
