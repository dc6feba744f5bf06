// Threads that write slices.
#include "io/files/slice_writers.hpp"

#include <exception>
#include <utility>

#include "base/run/workers.hpp"
#include "spmm/report.hpp"

namespace spmm::io {

SliceWriters::SliceWriters(unsigned num_writers, std::uint64_t piece_bytes,
                           std::function<void(const SlicePiece&)> write_piece, StageClock* clock)
    : num_writers_(num_writers),
      piece_bytes_(piece_bytes),
      write_piece_(std::move(write_piece)),
      clock_(clock),
      queue_(piece_bytes) {
  writers_.reserve(num_writers);
}

void SliceWriters::push(Slice slice) {
  const std::uint64_t bytes = slice.bytes.size();
  const std::size_t num_left = queue_.push(std::move(slice));
  pushed_bytes_ += bytes;
  start_writers(num_left);
  if (!writers_.empty()) return;
  while (std::optional<SlicePiece> piece = queue_.try_pop()) write(piece);
}

/// A writer for each piece that no waiting one takes, but no more than pieces so far but one: small products need no
/// threads. Where none can be started, push() writes.
void SliceWriters::start_writers(std::size_t num_left) {
  for (; num_left > 0 && may_start_ && writers_.size() < num_writers_ &&
         (writers_.size() + 1) * piece_bytes_ < pushed_bytes_;
       --num_left) {
    std::jthread writer = start_thread([this] {
      while (std::optional<SlicePiece> piece = queue_.pop()) write(piece);
    });
    may_start_ = writer.joinable();
    if (may_start_) writers_.push_back(std::move(writer));
  }
}

void SliceWriters::write(std::optional<SlicePiece>& piece) {
  try {
    const StageClock::WorkerScope working(clock_, Stage::write, {.bytes = piece->bytes.size()}, "writer");
    write_piece_(*piece);
  } catch (...) {
    queue_.fail(std::current_exception());
  }
  piece.reset();  // releases the slice with its last piece, before drain() may return
  queue_.done();
}

}  // namespace spmm::io
