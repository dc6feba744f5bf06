// A result written to one file by several threads.
#include "io/files/file_sink.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/records/errors.hpp"
#include "base/run/parallel.hpp"
#include "base/text.hpp"
#include "io/files/writers.hpp"

namespace spmm {
namespace io {
namespace {

/// Bytes of whole output records, at least one, and no more than `bytes` otherwise.
std::uint64_t whole_records(std::uint64_t bytes, std::uint32_t m) {
  const std::uint64_t record = output_record_bytes(m);
  return std::max<std::uint64_t>(1, bytes / record) * record;
}

/// Records to a file: write() queues, the writer threads of the sink write at the final offsets.
class FileSink final : public Sink {
 public:
  FileSink(const std::filesystem::path& path, std::uint32_t m, const FileSinkOptions& options,
           const FileSinkTuning& tuning)
      : file_(path, options, tuning.temp, tuning.mode),
        m_(m),
        writers_(
            file_.is_device() ? 0 : tuning.num_writers, whole_records(tuning.piece_bytes, m),
            [this](std::uint64_t offset, std::span<const std::byte> bytes) { file_.write_at(offset, bytes); },
            tuning.clock) {
    file_.expect_result(tuning.result_bytes);
  }

  [[nodiscard]] bool takes_places() const override { return true; }

  void write(std::uint64_t first_block, std::span<const std::byte> records, Release release) override {
    if (records.size() % record_bytes() != 0) {
      throw std::logic_error(text(file_.name(), ": ", records.size(), " bytes are not whole records"));
    }
    const std::uint64_t offset = kHeaderBytes + first_block * record_bytes();
    const std::uint64_t end = offset + records.size();
    check_num_output_blocks((end - kHeaderBytes) / record_bytes());
    if (end > end_bytes_) file_.expect_bytes(end);
    end_bytes_ = std::max(end_bytes_, end);
    put_bytes_ += records.size();
    writers_.push(offset, records, std::move(release));
  }

  bool read_back(std::uint64_t first_block, std::uint64_t count, std::byte* dst) override {
    return file_.read_at(kHeaderBytes + first_block * record_bytes(), {dst, count * record_bytes()});
  }

  void finish(const MatrixHeader& header) override {
    writers_.drain();
    const std::uint64_t num_blocks = (end_bytes_ - kHeaderBytes) / record_bytes();
    if (header.m != m_ || header.num_blocks != num_blocks || kHeaderBytes + put_bytes_ != end_bytes_) {
      throw std::logic_error(text(file_.name(), ": finish() with ", header.num_blocks, " blocks of side ", header.m,
                                  " after ", num_blocks, " of side ", m_, ", ", put_bytes_, " bytes"));
    }
    file_.finish(header);
  }

  void publish() override { file_.publish(); }

 private:
  [[nodiscard]] std::uint64_t record_bytes() const { return output_record_bytes(m_); }

  OutputFile file_;
  std::uint32_t m_;
  std::uint64_t end_bytes_ = kHeaderBytes;  ///< behind the last record so far
  std::uint64_t put_bytes_ = 0;             ///< of all records so far
  Writers writers_;                         // last: its threads end before anything else goes
};

}  // namespace

FileSinkTuning fastest_tuning(unsigned num_cores, unsigned num_files) {
  if (num_cores < kMinMappedWriters) return {};
  const unsigned share = std::clamp(num_cores / std::max(1u, num_files), kMinMappedWriters, kMaxMappedWriters);
  return {.mode = WriteMode::mapped, .num_writers = share};
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
