#include "cpu/output/queue.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/records/errors.hpp"

namespace spmm::cpu {
namespace {

constexpr auto kCancelPeriod = std::chrono::milliseconds(50);

constexpr std::uint64_t kPlentyShare = 3;  // more than a third of all buffers are free

}  // namespace

OutputQueue::OutputQueue(Sink& sink, std::uint64_t num_buffers, std::uint64_t buffer_bytes, std::uint64_t record_bytes,
                         const Run& run)
    : sink_(sink),
      run_(run),
      num_buffers_(num_buffers),
      buffer_bytes_(buffer_bytes),
      record_bytes_(record_bytes),
      buffers_(std::make_shared<Buffers>()) {
  buffers_->memory = AlignedArray<std::byte>(num_buffers * buffer_bytes);
  buffers_->free.reserve(num_buffers);  // giving one back never fails
  for (std::uint64_t x = 0; x < num_buffers; ++x) buffers_->free.push_back(buffers_->memory.data() + x * buffer_bytes);
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

std::uint64_t OutputQueue::useful_bytes() const {
  const bool are_plenty = buffers_->free.size() * kPlentyShare > num_buffers_;
  return are_plenty ? std::min(kCachedBytes, buffer_bytes_) : buffer_bytes_;
}

std::byte* OutputQueue::take_buffer() {
  std::byte* data = buffers_->free.back();
  buffers_->free.pop_back();
  return data;
}

bool OutputQueue::start(Job& job, const std::function<bool()>& claim) {
  Lock lock(buffers_->mutex);
  const auto has_buffer = [&] { return buffers_->free.size() >= (num_delivered_ == next_number_ ? 1u : 2u); };
  wait(lock, buffers_->buffer, has_buffer);
  if (!claim()) {
    buffers_->buffer.notify_one();  // the next one finds the end as well
    return false;
  }
  job.number = next_number_++;
  job.data = take_buffer();
  job.used_bytes = 0;
  job.sent_bytes = 0;
  job.num_saturated = 0;
  return true;
}

void OutputQueue::flush(Job& job) {
  Lock lock(buffers_->mutex);
  wait(lock, buffers_->turn, [&] { return num_delivered_ == job.number && !appending_; });
  append(lock, job);
  wait(lock, buffers_->turn, [&] { return !buffers_->free.empty(); });
  job.data = take_buffer();
  job.sent_bytes += job.used_bytes;
  job.used_bytes = 0;
  job.num_saturated = 0;
}

void OutputQueue::finish(const Job& job) {
  Lock lock(buffers_->mutex);
  finished_.emplace(job.number, job);
  if (!appending_) deliver_finished(lock);
}

void OutputQueue::wait_until_released() {
  Lock lock(buffers_->mutex);
  wait(lock, buffers_->turn, [&] { return buffers_->free.size() == num_buffers_; });
}

void OutputQueue::fail() noexcept {
  const std::lock_guard lock(buffers_->mutex);
  failed_ = true;
  buffers_->buffer.notify_all();
  buffers_->turn.notify_all();
}

void OutputQueue::run(const std::function<void()>& work) {
  run_.run_workers(run_.num_threads, [&](unsigned) {
    try {
      work();
    } catch (const Stopped&) {
      // Another worker has failed and reports why.
    } catch (...) {
      fail();
      throw;
    }
  });
}

void OutputQueue::deliver_finished(Lock& lock) {
  // Whoever appends also takes what the others finish meanwhile: the sink has one caller at a time.
  while (!finished_.empty() && finished_.begin()->first == num_delivered_) {
    if (failed_) throw Stopped{};
    const Job job = finished_.extract(finished_.begin()).mapped();
    append(lock, job);
    ++num_delivered_;
    buffers_->buffer.notify_one();
    buffers_->turn.notify_all();
  }
}

void OutputQueue::append(Lock& lock, const Job& job) {
  if (job.used_bytes == 0) {
    buffers_->free.push_back(job.data);
    return;
  }
  const std::uint64_t first_block = num_records_;
  num_records_ += job.used_bytes / record_bytes_;
  num_saturated_ += job.num_saturated;
  ++num_appended_;
  check_num_output_blocks(num_records_);
  appending_ = true;
  lock.unlock();
  // The sink may keep the buffer longer than this queue lives, so the callback owns a share of it.
  sink_.write(first_block, {job.data, job.used_bytes}, [buffers = buffers_, data = job.data] {
    const std::lock_guard guard(buffers->mutex);
    buffers->free.push_back(data);
    buffers->buffer.notify_one();
    buffers->turn.notify_all();
  });
  lock.lock();
  appending_ = false;
}

std::uint64_t RecordWriter::room() {
  if (job_.used_bytes + record_bytes_ > queue_.buffer_bytes()) queue_.flush(job_);
  return (queue_.buffer_bytes() - job_.used_bytes) / record_bytes_;
}

void RecordWriter::append(const std::byte* from, const std::byte* end) {
  for (; from != end; from += record_bytes_) {
    static_cast<void>(room());
    std::memcpy(position(), from, record_bytes_);
    advance_to(position() + record_bytes_);
  }
}

}  // namespace spmm::cpu
