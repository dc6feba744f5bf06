#include "cuda/output/common_output.hpp"

#include <chrono>
#include <stdexcept>
#include <utility>

#include "base/records/errors.hpp"

namespace spmm::cuda {
namespace {

constexpr auto kCancelPeriod = std::chrono::milliseconds(50);

}  // namespace

void CommonOutput::start(std::uint32_t device, plan::Execution& execution) {
  const std::lock_guard lock(mutex_);
  check_locked();
  if (!has_started_) {
    has_started_ = true;
    panels_ = execution.panels;
    places_.resize(panels_.size());
    for (const plan::Panel& panel : panels_) num_rows_ += panel.num_rows;
  } else if (execution.panels != panels_) {
    throw std::logic_error("devices that share a product decided differently");
  }
  for (std::size_t x = 0; x < panels_.size(); ++x) execution.panels[x].number = x;
  std::erase_if(execution.panels, [&](const plan::Panel& panel) { return num_devices_ > 1 && panel.device != device; });
}

void CommonOutput::begin(std::size_t panel, std::uint64_t num_blocks) {
  std::unique_lock lock(mutex_);
  num_blocks_ += num_blocks;
  try {
    check_num_output_blocks(num_blocks_);
  } catch (...) {  // no device's own failure
    if (!failure_) failure_ = std::current_exception();
  }
  places_.at(panel).num_blocks = num_blocks;
  for (; num_placed_ + 1 < places_.size() && places_[num_placed_].num_blocks; ++num_placed_) {
    places_[num_placed_ + 1].next_block = places_[num_placed_].next_block + *places_[num_placed_].num_blocks;
  }
  changed_.notify_all();
  while (true) {
    check_locked();
    run_.check_cancelled();
    if (at_places_ ? panel <= num_placed_ : panel <= num_ended_) return;
    changed_.wait_for(lock, kCancelPeriod);
  }
}

void CommonOutput::append(std::size_t panel, std::span<const std::byte> records, Release release) {
  std::uint64_t& next = places_[panel].next_block;
  const std::uint64_t first_block = std::exchange(next, next + records.size() / record_bytes_);
  try {
    const std::lock_guard lock(sink_mutex_);
    output_.write(first_block, records, std::move(release));
  } catch (...) {  // no device's own failure
    fail(std::current_exception());
    throw;
  }
}

void CommonOutput::end(std::size_t panel) {
  const std::lock_guard lock(mutex_);
  places_[panel].has_ended = true;
  while (num_ended_ < places_.size() && places_[num_ended_].has_ended) ++num_ended_;
  changed_.notify_all();
  rows_done_ += panels_[panel].num_rows;
  if (run_.on_progress) run_.on_progress(Stage::multiply, rows_done_, num_rows_);
}

void CommonOutput::fail(std::exception_ptr error) noexcept {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(error);
  changed_.notify_all();
}

void CommonOutput::check_locked() const {
  if (failure_) throw DeviceStopped{};
}

void CommonOutput::check() const {
  const std::lock_guard lock(mutex_);
  check_locked();
}

void CommonOutput::rethrow_failure() const {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

}  // namespace spmm::cuda
