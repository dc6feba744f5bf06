#include "cpu/output/queue.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace spmm::cpu {
namespace {

constexpr auto kCancelPeriod = std::chrono::milliseconds(50);

constexpr std::uint64_t kPlentyShare = 3;  // more than a third of all buffers are free

/// Thrown into the other workers after one has failed; carries no message.
struct Stopped {};

}  // namespace

OutputQueue::OutputQueue(Output& output, std::uint64_t num_buffers, std::uint64_t buffer_bytes,
                         std::uint64_t record_bytes, const Run& run)
    : output_(output),
      run_(run),
      num_buffers_(num_buffers),
      buffer_bytes_(buffer_bytes),
      record_bytes_(record_bytes),
      buffers_(std::make_shared<Buffers>()) {
  buffers_->memory = AlignedArray<std::byte>(num_buffers * buffer_bytes);
  buffers_->free.reserve(num_buffers);  // giving one back never fails
  for (std::uint64_t x = 0; x < num_buffers; ++x) buffers_->free.push_back(buffers_->memory.data() + x * buffer_bytes);
}

void OutputQueue::run(const std::function<void(RecordWriter& out)>& work) {
  run_.run_workers(run_.num_threads, [&](unsigned) {
    try {
      RecordWriter out(*this);
      work(out);
    } catch (const Stopped&) {
      // Another worker has failed and reports why.
    } catch (...) {
      const std::lock_guard lock(buffers_->mutex);
      failed_ = true;
      buffers_->buffer.notify_all();
      buffers_->turn.notify_all();
      throw;
    }
  });
}

std::uint64_t OutputQueue::useful_bytes() const {
  const bool are_plenty = buffers_->free.size() * kPlentyShare > num_buffers_;
  return are_plenty ? std::min(kCachedBytes, buffer_bytes_) : buffer_bytes_;
}

template <class Ready>
void OutputQueue::wait(Lock& lock, std::condition_variable& changed, const Ready& ready) {
  while (true) {
    if (failed_) throw Stopped{};
    if (ready()) return;
    changed.wait_for(lock, kCancelPeriod);
    run_.check_cancelled();
  }
}

std::byte* OutputQueue::take_buffer() {
  std::byte* data = buffers_->free.back();
  buffers_->free.pop_back();
  return data;
}

void OutputQueue::append(Lock& lock, const Piece& piece) {
  if (piece.bytes == 0) {
    buffers_->free.push_back(piece.data);
    return;
  }
  const std::uint64_t first_block = num_records_;
  num_records_ += piece.bytes / record_bytes_;
  num_saturated_ += piece.num_saturated;
  ++num_appended_;
  appending_ = true;
  lock.unlock();
  // The sink may keep the buffer longer than this queue lives, so the callback owns a share of it.
  output_.write(first_block, {piece.data, piece.bytes}, [buffers = buffers_, data = piece.data] {
    const std::lock_guard guard(buffers->mutex);
    buffers->free.push_back(data);
    buffers->buffer.notify_one();
    buffers->turn.notify_all();
  });
  lock.lock();
  appending_ = false;
}

void OutputQueue::deliver_finished(Lock& lock) {
  // Whoever appends also takes what the others finish meanwhile: the sink has one caller at a time.
  while (!finished_.empty() && finished_.begin()->first == num_delivered_) {
    if (failed_) throw Stopped{};
    append(lock, finished_.extract(finished_.begin()).mapped());
    ++num_delivered_;
    buffers_->buffer.notify_one();
    buffers_->turn.notify_all();
  }
}

/// Applies the selection to the records that came last.
void RecordWriter::select() {
  std::byte* const begin = piece_.data + selected_bytes_;
  std::byte* const end = selector_->select(begin, position());
  count({begin, end});
  piece_.bytes = selected_bytes_ = static_cast<std::uint64_t>(end - piece_.data);
}

void RecordWriter::end_row() {
  if (!selector_) return;
  select();
  selector_->end_row();
  for (std::span<const std::byte> kept = selector_->take_kept(); !kept.empty(); kept = selector_->take_kept()) {
    count(kept);
    for (std::uint64_t at = 0, bytes = 0; at < kept.size(); at += bytes) {
      bytes = std::min(room() * queue_.record_bytes_, kept.size() - at);
      std::memcpy(position(), kept.data() + at, bytes);
      piece_.bytes = selected_bytes_ += bytes;
    }
  }
}

bool RecordWriter::start(const std::function<bool()>& claim) {
  OutputQueue::Buffers& buffers = *queue_.buffers_;
  OutputQueue::Lock lock(buffers.mutex);
  queue_.wait(lock, buffers.buffer,
              [&] { return buffers.free.size() >= (queue_.num_delivered_ == queue_.next_number_ ? 1u : 2u); });
  if (!claim()) {
    buffers.buffer.notify_one();  // the next one finds the end as well
    return false;
  }
  number_ = queue_.next_number_++;
  piece_ = {.data = queue_.take_buffer()};
  sent_bytes_ = selected_bytes_ = 0;
  return true;
}

void RecordWriter::finish() {
  OutputQueue::Lock lock(queue_.buffers_->mutex);
  if (selector_) queue_.num_dropped_ += selector_->take_num_dropped();
  queue_.finished_.emplace(number_, std::exchange(piece_, {}));
  if (!queue_.appending_) queue_.deliver_finished(lock);
}

std::uint64_t RecordWriter::room() {
  constexpr std::uint64_t kUsefulShare = 4;  // of a buffer: to fill less once more is not worth it
  bool is_full = piece_.bytes + queue_.record_bytes_ > queue_.buffer_bytes_;
  if (is_full && selector_) {
    select();
    const std::uint64_t least = std::max(queue_.record_bytes_, queue_.buffer_bytes_ / kUsefulShare);
    is_full = queue_.buffer_bytes_ - piece_.bytes < least;
  }
  if (is_full) {
    OutputQueue::Buffers& buffers = *queue_.buffers_;
    OutputQueue::Lock lock(buffers.mutex);
    queue_.wait(lock, buffers.turn, [&] { return queue_.num_delivered_ == number_ && !queue_.appending_; });
    queue_.append(lock, piece_);
    queue_.wait(lock, buffers.turn, [&] { return !buffers.free.empty(); });
    sent_bytes_ += piece_.bytes;
    piece_ = {.data = queue_.take_buffer()};
    selected_bytes_ = 0;
  }
  return (queue_.buffer_bytes_ - piece_.bytes) / queue_.record_bytes_;
}

void RecordWriter::append(const std::byte* from, const std::byte* end) {
  for (; from != end; from += queue_.record_bytes_) {
    static_cast<void>(room());
    std::memcpy(position(), from, queue_.record_bytes_);
    advance_to(position() + queue_.record_bytes_);
  }
}

}  // namespace spmm::cpu
