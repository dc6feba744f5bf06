// Shares of a limit: who waits, in which order, and what idle items leave.
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

bool MemoryBudget::keeps(const SourceIdentity& identity) const {
  const std::lock_guard lock(mutex_);
  return kept_.find(identity) != nullptr;
}

bool MemoryBudget::make_room(std::uint64_t bytes, std::span<const SourceIdentity> except) {
  if (!device_.fits(bytes)) return false;
  while (bytes + kept_.idle_bytes(except) > device_.free_bytes() && kept_.drop_oldest(except)) {
  }
  return true;
}

void KeptClaim::provide(std::uint64_t bytes, KeptItems::Item item) {
  {
    const std::lock_guard lock(budget_->mutex_);
    budget_->kept_.provide(id_, bytes, item);
    item_ = std::move(item);
  }
  budget_->changed_.notify_all();
}

void KeptClaim::release() noexcept {
  MemoryBudget* const budget = std::exchange(budget_, nullptr);
  if (budget == nullptr) return;
  {
    const std::lock_guard lock(budget->mutex_);
    if (item_ == nullptr) {
      budget->kept_.withdraw(id_);
    } else {
      item_.reset();
      budget->kept_.end_use(id_);
      budget->make_room(0);  // where products hold the rest, it cannot stay
    }
  }
  budget->changed_.notify_all();
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
  held_.clear();
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

void MemoryShare::reserve(const MemoryBytes& wanted, const std::atomic<bool>* cancel,
                          std::span<const SourceIdentity> files) {
  held_.reserve(files.size());
  std::unique_lock lock(budget_.mutex_);
  const MemoryBytes need{.host = std::min(wanted.host, budget_.host_.limit_bytes),
                         .device = std::min(wanted.device, budget_.device_.limit_bytes)};
  budget_.waiting_.push_back(this);
  while (budget_.waiting_.front() != this || !budget_.host_.fits(need.host) || !budget_.make_room(need.device, files)) {
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
  for (const SourceIdentity& file : files) {
    const KeptItems::Entry* const entry = budget_.kept_.find(file);
    if (entry == nullptr || !entry->is_ready()) continue;
    held_.push_back(KeptClaim(budget_, entry->id, budget_.kept_.use(entry->id)));
  }
  budget_.changed_.notify_all();
}

std::vector<KeptClaim> MemoryShare::claim(std::span<const KeptWish> wishes, const std::atomic<bool>* cancel,
                                          std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  const std::vector<KeptClaim> held = std::exchange(held_, {});  // goes when the claims below have been made
  held_.reserve(wishes.size());                                  // hold() must not allocate
  std::vector<KeptClaim> claims(wishes.size());
  std::vector<KeptItems::Id> awaited(wishes.size(), 0);
  std::unique_lock lock(budget_.mutex_);
  KeptItems& kept = budget_.kept_;
  const auto use = [&](std::size_t x, KeptItems::Id id) { claims[x] = KeptClaim(budget_, id, kept.use(id)); };
  // All in one step: who waits has promised before whom it waits for promised nothing more. No circle can close.
  for (std::size_t x = 0; x < wishes.size(); ++x) {
    const KeptWish& wish = wishes[x];
    if (!wish.identity) continue;
    const KeptItems::Entry* const entry = kept.find(*wish.identity);
    const auto is_own = [&](const KeptClaim& claim) { return claim.is_promised() && claim.id_ == entry->id; };
    if (entry == nullptr) {
      const bool may_keep = wish.keep && wish.bytes < budget_.device_.limit_bytes / 2;
      if (may_keep) claims[x] = KeptClaim(budget_, kept.promise(*wish.identity), nullptr);
    } else if (entry->is_ready()) {
      use(x, entry->id);
    } else if (std::none_of(claims.begin(), claims.end(), is_own)) {  // A and B may be the same file
      awaited[x] = entry->id;
    }
  }
  for (std::size_t x = 0; x < wishes.size(); ++x) {
    while (awaited[x] != 0) {
      const KeptItems::Entry* const entry = kept.find(awaited[x]);
      if (entry == nullptr || std::chrono::steady_clock::now() >= end) break;
      if (entry->is_ready()) {
        use(x, entry->id);
        break;
      }
      if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) {
        throw Interrupted("spmm", "interrupted", "nothing was written, it is safe to run it again");
      }
      budget_.changed_.wait_for(lock, kCancelPeriod);
    }
  }
  return claims;
}

bool MemoryShare::drop_kept() {
  const std::lock_guard lock(budget_.mutex_);
  bool was_any = false;
  while (budget_.kept_.drop_oldest()) was_any = true;
  return was_any;
}

bool MemoryShare::grow_host(std::uint64_t bytes) {
  const std::lock_guard lock(budget_.mutex_);
  if (bytes > budget_.host_.free_bytes()) return false;
  budget_.host_.used_bytes += bytes;
  reserved_.host += bytes;
  budget_.allow_pages();
  return true;
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
  budget_.make_room(bytes);
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
