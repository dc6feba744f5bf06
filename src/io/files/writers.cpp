// Threads that write slices.
#include "io/files/writers.hpp"

#include <algorithm>
#include <utility>

#include "base/run/parallel.hpp"
#include "spmm/report.hpp"

namespace spmm::io {

Writers::Writers(unsigned num_threads, std::uint64_t piece_bytes, Write write, StageClock* clock)
    : num_threads_(num_threads), piece_bytes_(piece_bytes), write_(std::move(write)), clock_(clock) {
  threads_.reserve(num_threads);
}

Writers::~Writers() {
  std::list<Waiting> dropped;
  const std::lock_guard lock(mutex_);
  closed_ = true;
  dropped.swap(slices_);
  work_.notify_all();
}

void Writers::push(std::uint64_t offset, std::span<const std::byte> bytes, Release release) {
  std::size_t num_left = 0;
  {
    const auto slice = std::make_shared<const Slice>(Slice{offset, bytes, std::move(release)});  // outlives the lock
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    if (bytes.empty()) return;
    slices_.push_back({.slice = slice});
    // One thread for each piece: with 16 of them the lock would be fought for by those who find nothing.
    const std::size_t num_pieces = (bytes.size() - 1) / piece_bytes_ + 1;
    const std::size_t num_taken = std::min(num_pieces, num_idle_ - std::min(num_idle_, num_queued_));
    num_queued_ += num_pieces;
    for (std::size_t x = 0; x < num_taken; ++x) work_.notify_one();
    num_left = num_pieces - num_taken;
  }
  pushed_bytes_ += bytes.size();
  start_threads(num_left);
  if (threads_.empty()) work(false);
}

/// A thread for each piece that no waiting one takes, but no more than pieces so far but one: small products need no
/// threads. Where none can be started, push() writes.
void Writers::start_threads(std::size_t num_left) {
  for (; num_left > 0 && may_start_ && threads_.size() < num_threads_ &&
         (threads_.size() + 1) * piece_bytes_ < pushed_bytes_;
       --num_left) {
    std::jthread thread = start_thread([this] { work(true); });
    may_start_ = thread.joinable();
    if (may_start_) threads_.push_back(std::move(thread));
  }
}

/// Writes pieces while there are any, or until the end if it waits for them.
void Writers::work(bool waits) {
  std::unique_lock lock(mutex_);
  while (true) {
    ++num_idle_;
    if (waits) work_.wait(lock, [&] { return closed_ || !slices_.empty(); });
    --num_idle_;
    if (slices_.empty()) return;
    Waiting& next = slices_.front();
    std::shared_ptr<const Slice> slice = next.slice;
    const std::uint64_t at = next.handed_out_bytes;
    const std::span<const std::byte> piece =
        slice->bytes.subspan(at, std::min<std::uint64_t>(piece_bytes_, slice->bytes.size() - at));
    next.handed_out_bytes += piece.size();
    if (next.handed_out_bytes == slice->bytes.size()) slices_.pop_front();
    --num_queued_;
    ++num_active_;
    lock.unlock();
    try {
      const StageClock::WorkerScope working(clock_, Stage::write, {.bytes = piece.size()}, "writer");
      write_(slice->offset + at, piece);
    } catch (...) {
      fail(std::current_exception());
    }
    slice.reset();  // releases the slice with its last piece, before drain() may return
    lock.lock();
    --num_active_;
    if (num_active_ == 0 && slices_.empty()) drained_.notify_all();
  }
}

void Writers::fail(std::exception_ptr error) {
  std::list<Waiting> dropped;
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(error);
  dropped.swap(slices_);
  num_queued_ = 0;
}

void Writers::drain() {
  std::unique_lock lock(mutex_);
  drained_.wait(lock, [&] { return slices_.empty() && num_active_ == 0; });
  if (failure_) std::rethrow_exception(failure_);
}

}  // namespace spmm::io
