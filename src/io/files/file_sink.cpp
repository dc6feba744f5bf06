// A result written to one file by several threads.
#include "io/files/file_sink.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/records/errors.hpp"
#include "base/run/parallel.hpp"
#include "base/text.hpp"

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
      : file_(path, options, tuning.temp, tuning.maps),
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
    writers_.push(offset, records, release);
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

Writers::Writers(unsigned num_threads, std::uint64_t piece_bytes, Write write, StageClock* clock)
    : num_threads_(num_threads), piece_bytes_(piece_bytes), write_(std::move(write)), clock_(clock) {
  threads_.reserve(num_threads);
}

Writers::~Writers() {
  std::list<Piece> dropped;
  const std::lock_guard lock(mutex_);
  closed_ = true;
  dropped.swap(pieces_);
  work_.notify_all();
}

void Writers::push(std::uint64_t offset, std::span<const std::byte> bytes, const Release& release) {
  std::list<Piece> pieces;  // outlives the lock
  for (std::uint64_t at = 0; at < bytes.size(); at += piece_bytes_) {
    pieces.push_back(
        {release, offset + at, bytes.subspan(at, std::min<std::uint64_t>(piece_bytes_, bytes.size() - at))});
  }
  const std::size_t num = pieces.size();
  std::size_t num_left = 0;  // that no waiting thread takes
  {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    pieces_.splice(pieces_.end(), pieces);
    // One thread for each piece: with 16 of them the lock would be fought for by those who find nothing.
    for (std::size_t x = 0; x < std::min(num, num_idle_); ++x) work_.notify_one();
    num_left = pieces_.size() - std::min(pieces_.size(), num_idle_);
  }
  // No more threads than pieces so far but one: small products need none. Where none can be started, this one writes.
  num_pushed_ += num;
  for (; num_left > 0 && may_start_ && threads_.size() < num_threads_ && threads_.size() + 1 < num_pushed_;
       --num_left) {
    std::jthread thread = start_thread([this] { work(true); });
    may_start_ = thread.joinable();
    if (may_start_) threads_.push_back(std::move(thread));
  }
  if (threads_.empty()) work(false);
}

/// Writes pieces while there are any, or until the end if it waits for them.
void Writers::work(bool waits) {
  std::unique_lock lock(mutex_);
  while (true) {
    if (waits) {
      ++num_idle_;
      work_.wait(lock, [&] { return closed_ || !pieces_.empty(); });
      --num_idle_;
    }
    if (pieces_.empty()) return;
    std::list<Piece> taken;
    taken.splice(taken.begin(), pieces_, pieces_.begin());
    ++num_active_;
    lock.unlock();
    try {
      const Piece& piece = taken.front();
      const StageClock::Interval working(clock_, Stage::write, StageClock::Part::piece, {.bytes = piece.bytes.size()},
                                         "writer");
      write_(piece.offset, piece.bytes);
    } catch (...) {
      fail(std::current_exception());
    }
    taken.clear();  // before drain() may return
    lock.lock();
    if (--num_active_ == 0 && pieces_.empty()) drained_.notify_all();
  }
}

void Writers::fail(std::exception_ptr error) {
  std::list<Piece> dropped;
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(error);
  dropped.swap(pieces_);
}

void Writers::drain() {
  std::unique_lock lock(mutex_);
  drained_.wait(lock, [&] { return pieces_.empty() && num_active_ == 0; });
  if (failure_) std::rethrow_exception(failure_);
}

FileSinkTuning fastest_tuning(unsigned num_cores, unsigned num_files) {
  if (num_cores < kMinMappedWriters) return {};
  const unsigned share = std::clamp(num_cores / std::max(1u, num_files), kMinMappedWriters, kMaxMappedWriters);
  return {.maps = true, .num_writers = share};
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
