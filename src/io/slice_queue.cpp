#include "io/slice_queue.hpp"

#include <algorithm>
#include <utility>

namespace spmm::io {

void SliceQueue::push(Slice slice) {
  const auto shared = std::make_shared<const Slice>(std::move(slice));  // outlives the lock: it may release
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  if (shared->bytes.empty()) return;
  slices_.push_back(shared);
  changed_.notify_all();
}

std::optional<Piece> SliceQueue::pop() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || !slices_.empty(); });
  return next_piece();
}

std::optional<Piece> SliceQueue::try_pop() {
  const std::lock_guard lock(mutex_);
  return next_piece();
}

std::optional<Piece> SliceQueue::next_piece() {
  if (slices_.empty()) return std::nullopt;
  const std::shared_ptr<const Slice>& slice = slices_.front();
  const std::size_t size = std::min<std::size_t>(piece_bytes_, slice->bytes.size() - handed_out_bytes_);
  Piece piece{.slice = slice,
              .offset = slice->offset + handed_out_bytes_,
              .bytes = slice->bytes.subspan(handed_out_bytes_, size)};
  handed_out_bytes_ += size;
  if (handed_out_bytes_ == slice->bytes.size()) {
    slices_.pop_front();
    handed_out_bytes_ = 0;
  }
  ++active_;
  return piece;
}

void SliceQueue::done() {
  const std::lock_guard lock(mutex_);
  --active_;
  changed_.notify_all();
}

void SliceQueue::fail(std::exception_ptr error) {
  std::list<std::shared_ptr<const Slice>> dropped;
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(error);
  dropped.swap(slices_);
  handed_out_bytes_ = 0;
}

void SliceQueue::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return slices_.empty() && active_ == 0; });
  if (failure_) std::rethrow_exception(failure_);
}

void SliceQueue::close() {
  std::list<std::shared_ptr<const Slice>> dropped;
  const std::lock_guard lock(mutex_);
  closed_ = true;
  dropped.swap(slices_);
  handed_out_bytes_ = 0;
  changed_.notify_all();
}

}  // namespace spmm::io
