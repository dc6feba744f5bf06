// The file sink with what tests and measurements vary, and the threads that write its slices.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/run/stage_clock.hpp"
#include "io/files/output_file.hpp"
#include "spmm/io.hpp"
#include "spmm/stream.hpp"

namespace spmm::io {

/// Writers of one sink that uses pwrite, and the bytes that one of them writes at once. Measured in GB/s, 16 MB slices,
/// new files of 1 GB (2 cores, median of 7; page-cache speed varies threefold): ext4 1 writer 0.9, 2 writers with
/// pieces of 1 / 4 / 16 MB 2.2 / 1.3 / 0.7, 4 writers 2.3 / 1.8; tmpfs 1.3, 1.9 / 1.9 / 1.1, 2.6 / 1.8. With 16 cores
/// 1, 2 and 16 writers reach 3.4, 4.5 and 4.6. Two are nearly the best everywhere and take the fewest cores from the
/// computation.
inline constexpr unsigned kNumWriters = 2;
inline constexpr std::uint64_t kPieceBytes = 1u << 20;

/// Mapped pages are filled by as many threads as there are cores, up to this many, if there are at least
/// kMinMappedWriters: 4 GiB on ext4, 8 / 16 threads 13.7 / 14.8 GB/s (MappedFile::kRangeBytes). On 2 cores no faster
/// than pwrite.
inline constexpr unsigned kMaxMappedWriters = 16;
inline constexpr unsigned kMinMappedWriters = 4;

struct FileSinkTuning {
  TempKind temp = TempKind::automatic;
  bool maps = false;                   ///< as of OutputFile
  unsigned num_writers = kNumWriters;  ///< at most; 0: write() itself writes to the file
  std::uint64_t piece_bytes = kPieceBytes;
  StageClock* clock = nullptr;     ///< counts the pieces that are written; outlives the sink
  std::uint64_t result_bytes = 0;  ///< about so many in all, for messages; 0: not known
};

/// The fastest way of writing on a machine with so many cores, for one of several files that are written at once: a
/// batch of 50 products with 0.28 GB each, 4 at once, 16 cores, from the start of the GPU to its end: 16 / 4 writers
/// each 8.6 / 10 GB/s.
FileSinkTuning fastest_tuning(unsigned num_cores, unsigned num_files = 1);

/// open_file_sink() with everything said. Errors: OutputError.
std::unique_ptr<Sink> open_tuned_file_sink(const std::filesystem::path& path, std::uint32_t m,
                                           const FileSinkOptions& options, const FileSinkTuning& tuning);

/// Hands slices out in pieces and in order, so that several threads share one slice.
/// Threads: one caller at a time; the given function runs on several threads at once. No slice is released with the
/// lock held.
class Writers {
 public:
  using Write = std::function<void(std::uint64_t offset, std::span<const std::byte> bytes)>;

  /// Values: num_threads = at most; 0: push() itself writes. `write` may throw. clock may be null.
  Writers(unsigned num_threads, std::uint64_t piece_bytes, Write write, StageClock* clock = nullptr);
  /// Drops what is queued.
  ~Writers();
  Writers(const Writers&) = delete;
  Writers& operator=(const Writers&) = delete;

  /// Queues bytes with their place in the file; they are released when the last piece is written or dropped.
  /// Errors: rethrows the first failure of `write`, after which everything is dropped.
  void push(std::uint64_t offset, std::span<const std::byte> bytes, const Release& release);

  /// Waits until everything is written. Errors: as push().
  void drain();

 private:
  /// A part of a slice that one thread writes. The slice is released with the last one of its pieces.
  struct Piece {
    Release slice;
    std::uint64_t offset;
    std::span<const std::byte> bytes;
  };

  void work(bool waits);
  void fail(std::exception_ptr error);

  unsigned num_threads_;
  std::uint64_t piece_bytes_;
  Write write_;
  StageClock* clock_;
  bool may_start_ = true;  ///< false once the system has refused a thread
  std::size_t num_pushed_ = 0;
  std::mutex mutex_;
  // Guarded by mutex_:
  std::condition_variable work_;
  std::condition_variable drained_;
  std::size_t num_idle_ = 0;    ///< threads that wait for a piece
  std::size_t num_active_ = 0;  ///< pieces being written
  std::list<Piece> pieces_;     // takes no memory to be made or swapped, as fail() must not
  std::exception_ptr failure_;
  bool closed_ = false;
  std::vector<std::jthread> threads_;  // last: joined before anything else goes
};

}  // namespace spmm::io
