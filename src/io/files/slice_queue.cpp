// A bounded queue of slices of output.
#include "io/files/slice_queue.hpp"

#include <algorithm>
#include <utility>

namespace spmm::io {

std::size_t SliceQueue::push(Slice slice) {
  const auto shared = std::make_shared<const Slice>(std::move(slice));  // outlives the lock: it may release
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  if (shared->bytes.empty()) return 0;
  slices_.push_back({.slice = shared});
  // One writer for each piece: with 16 of them the lock would be fought for by those who find nothing.
  const std::size_t num_pieces = (shared->bytes.size() - 1) / piece_bytes_ + 1;
  const std::size_t num_taken = std::min(num_pieces, num_waiting_ - std::min(num_waiting_, num_queued_));
  num_queued_ += num_pieces;
  for (std::size_t x = 0; x < num_taken; ++x) work_.notify_one();
  return num_pieces - num_taken;
}

std::optional<SlicePiece> SliceQueue::pop() {
  std::unique_lock lock(mutex_);
  ++num_waiting_;
  work_.wait(lock, [&] { return closed_ || !slices_.empty(); });
  --num_waiting_;
  return next_piece();
}

std::optional<SlicePiece> SliceQueue::try_pop() {
  const std::lock_guard lock(mutex_);
  return next_piece();
}

std::optional<SlicePiece> SliceQueue::next_piece() {
  if (slices_.empty()) return std::nullopt;
  Waiting& next = slices_.front();
  const Slice& slice = *next.slice;
  const std::size_t size = std::min<std::size_t>(piece_bytes_, slice.bytes.size() - next.handed_out_bytes);
  SlicePiece piece{.slice = next.slice,
                   .offset = slice.offset + next.handed_out_bytes,
                   .bytes = slice.bytes.subspan(next.handed_out_bytes, size)};
  ++active_;
  --num_queued_;
  next.handed_out_bytes += size;
  if (next.handed_out_bytes == slice.bytes.size()) slices_.pop_front();
  return piece;
}

void SliceQueue::done() {
  const std::lock_guard lock(mutex_);
  --active_;
  if (active_ == 0 && slices_.empty()) drained_.notify_all();
}

void SliceQueue::fail(std::exception_ptr error) {
  std::list<Waiting> dropped;
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(error);
  dropped.swap(slices_);
  num_queued_ = 0;
}

void SliceQueue::drain() {
  std::unique_lock lock(mutex_);
  drained_.wait(lock, [&] { return slices_.empty() && active_ == 0; });
  if (failure_) std::rethrow_exception(failure_);
}

void SliceQueue::close() {
  std::list<Waiting> dropped;
  const std::lock_guard lock(mutex_);
  closed_ = true;
  dropped.swap(slices_);
  num_queued_ = 0;
  work_.notify_all();
}

}  // namespace spmm::io
