// Shares of a limit: who waits, and in which order.
#include "base/memory/budget.hpp"

#include <algorithm>
#include <chrono>

#include "base/text.hpp"
#include "spmm/error.hpp"

namespace spmm {
namespace {

/// How soon a product that waits sees that it was cancelled.
constexpr auto kCancelPeriod = std::chrono::milliseconds(50);

}  // namespace

std::size_t MemoryBudget::num_waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_.size();
}

MemoryShare::~MemoryShare() {
  {
    const std::lock_guard lock(budget_.mutex_);
    budget_.host_.used_bytes -= reserved_.host;
    budget_.result_bytes_ -= result_bytes_;
    budget_.device_.used_bytes -= reserved_.device;
    budget_.host_.num_users -= uses_host_ ? 1 : 0;
    const std::uint64_t paged_bytes = reserved_.host - result_bytes_;
    if (budget_.keeps_pages_ && paged_bytes != 0) budget_.kept_page_bytes_ = paged_bytes;
    budget_.allow_pages();
    budget_.device_.num_users -= uses_device_ ? 1 : 0;
  }
  budget_.changed_.notify_all();
}

std::uint64_t MemoryShare::limit_bytes(MemoryBudget::Pool& pool, bool& is_user,
                                       const std::function<std::uint64_t()>& measure) {
  const std::lock_guard lock(budget_.mutex_);
  if (!is_user) {
    if (pool.num_users == 0) pool.limit_bytes = measure();
    ++pool.num_users;
    is_user = true;
  }
  return pool.limit_bytes;
}

std::uint64_t MemoryShare::host_limit_bytes(const std::function<std::uint64_t()>& measure) {
  return limit_bytes(budget_.host_, uses_host_, measure);
}

std::uint64_t MemoryShare::device_limit_bytes(const std::function<std::uint64_t()>& measure) {
  return limit_bytes(budget_.device_, uses_device_, measure);
}

void MemoryShare::reserve(const MemoryBytes& wanted, const std::atomic<bool>* cancel) {
  std::unique_lock lock(budget_.mutex_);
  const MemoryBytes need{.host = std::min(wanted.host, budget_.host_.limit_bytes),
                         .device = std::min(wanted.device, budget_.device_.limit_bytes)};
  budget_.waiting_.push_back(this);
  while (budget_.waiting_.front() != this || !budget_.host_.fits(need.host) || !budget_.device_.fits(need.device)) {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) {
      budget_.waiting_.remove(this);
      budget_.changed_.notify_all();  // who was behind it
      throw Interrupted("spmm", "interrupted while it waited for memory that other products hold",
                        "nothing was written, it is safe to run it again");
    }
    budget_.changed_.wait_for(lock, kCancelPeriod);
  }
  budget_.waiting_.pop_front();
  budget_.host_.used_bytes += need.host;
  budget_.device_.used_bytes += need.device;
  reserved_.host += need.host;
  reserved_.device += need.device;
  budget_.allow_pages();
  budget_.changed_.notify_all();
}

void MemoryShare::add_result(std::uint64_t bytes) {
  const std::lock_guard lock(budget_.mutex_);
  const std::uint64_t limit = budget_.host_.limit_bytes;
  if (bytes > budget_.host_.free_bytes()) {
    const std::uint64_t others = budget_.host_.used_bytes - reserved_.host;
    throw OutOfMemory(
        "result in memory",
        text("its first ", human_bytes(result_bytes_ + bytes), " do not fit the limit of ", human_bytes(limit),
             " beside ", human_bytes(reserved_.host - result_bytes_), " of the product",
             others == 0 ? "" : " and " + human_bytes(others) + " of others"),
        "raise EngineOptions::memory_limit_bytes, or multiply to a file, which needs memory for a part of "
        "the result only");
  }
  budget_.host_.used_bytes += bytes;
  budget_.result_bytes_ += bytes;
  reserved_.host += bytes;
  result_bytes_ += bytes;
}

bool MemoryShare::grow_device(std::uint64_t bytes) {
  const std::lock_guard lock(budget_.mutex_);
  if (bytes > budget_.device_.free_bytes()) return false;
  budget_.device_.used_bytes += bytes;
  reserved_.device += bytes;
  return true;
}

MemoryBytes MemoryShare::reserved() const {
  const std::lock_guard lock(budget_.mutex_);
  return reserved_;
}

MemoryBytes MemoryShare::free() const {
  const std::lock_guard lock(budget_.mutex_);
  return {.host = budget_.host_.free_bytes(), .device = budget_.device_.free_bytes()};
}

}  // namespace spmm
