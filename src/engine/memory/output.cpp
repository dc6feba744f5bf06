// Records are counted, checked and handed on.
#include "engine/memory/output.hpp"

#include <chrono>

namespace spmm {

void Output::write(std::uint64_t first_block, std::span<const std::byte> records, Release release) {
  was_used_ = true;
  const auto shared = std::make_shared<Release>(std::move(release));
  if (sink_.keeps_records()) memory_.add_result(records.size());
  if (look_) look_(begin_ + first_block, records);
  {
    const std::lock_guard lock(held_->mutex);
    ++held_->count;
  }
  // The sink may hold it longer than this lives.
  sink_.write(begin_ + first_block, records, [held = held_, shared] {
    (*shared)();
    const std::lock_guard lock(held->mutex);
    --held->count;
    held->changed.notify_all();
  });
}

void Output::wait_until_released(const Run& run) const {
  constexpr auto kCancelPeriod = std::chrono::milliseconds(50);
  std::unique_lock lock(held_->mutex);
  while (held_->count != 0) {
    held_->changed.wait_for(lock, kCancelPeriod);
    run.check_cancelled();
  }
}

}  // namespace spmm
