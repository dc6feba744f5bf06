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
  std::list<Piece> dropped;
  const std::lock_guard lock(mutex_);
  closed_ = true;
  dropped.swap(pieces_);
  work_.notify_all();
}

void Writers::push(std::uint64_t offset, std::span<const std::byte> bytes, Release release) {
  const auto slice = std::make_shared<Release>(std::move(release));
  std::list<Piece> pieces;  // outlives the lock
  for (std::uint64_t at = 0; at < bytes.size(); at += piece_bytes_) {
    pieces.push_back({slice, offset + at, bytes.subspan(at, std::min<std::uint64_t>(piece_bytes_, bytes.size() - at))});
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

}  // namespace spmm::io
