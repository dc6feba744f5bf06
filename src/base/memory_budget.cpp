#include "base/memory_budget.hpp"

#include <algorithm>
#include <chrono>

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
    budget_.device_.used_bytes -= reserved_.device;
    budget_.host_.num_users -= uses_host_ ? 1 : 0;
    if (budget_.keeps_pages_ && reserved_.host != 0) budget_.kept_bytes_ = reserved_.host;
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

bool MemoryShare::grow(MemoryBudget::Pool& pool, std::uint64_t& own_bytes, std::uint64_t bytes) {
  const std::lock_guard lock(budget_.mutex_);
  if (bytes > pool.free_bytes()) return false;
  pool.used_bytes += bytes;
  own_bytes += bytes;
  budget_.allow_pages();
  return true;
}

bool MemoryShare::grow_host(std::uint64_t bytes) {
  return grow(budget_.host_, reserved_.host, bytes);
}

bool MemoryShare::grow_device(std::uint64_t bytes) {
  return grow(budget_.device_, reserved_.device, bytes);
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
