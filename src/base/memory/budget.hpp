// What the products of one engine may take together, in host and device memory; who asks for too much waits.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>

#include "base/memory/aligned_array.hpp"

namespace spmm {

/// Bytes of host and device memory.
struct MemoryBytes {
  std::uint64_t host = 0;
  std::uint64_t device = 0;
};

/// One limit for the host and one for the device, shared by the products of an engine (MemoryShare). Threads: any.
/// Memory: pages of freed arrays are kept within what the running products have reserved (SpareAllowance), and between
/// two products, where `keeps_pages`, as much as the last one had.
class MemoryBudget {
 public:
  explicit MemoryBudget(bool keeps_pages = false) : keeps_pages_(keeps_pages) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  /// Products that wait for memory now.
  [[nodiscard]] std::size_t num_waiting() const;

 private:
  friend class MemoryShare;

  /// One kind of memory.
  struct Pool {
    std::uint64_t limit_bytes = 0;
    std::uint64_t used_bytes = 0;
    unsigned num_users = 0;

    [[nodiscard]] bool fits(std::uint64_t bytes) const {
      return used_bytes == 0 || (used_bytes <= limit_bytes && bytes <= limit_bytes - used_bytes);
    }
    [[nodiscard]] std::uint64_t free_bytes() const {
      return limit_bytes - (used_bytes < limit_bytes ? used_bytes : limit_bytes);
    }
  };

  void allow_pages() { allowance_.set(std::max(host_.used_bytes - result_bytes_, kept_page_bytes_)); }

  const bool keeps_pages_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t kept_page_bytes_ = 0;
  std::uint64_t result_bytes_ = 0;  // part of host_.used_bytes: results in memory, which are no arrays of the engine
  SpareAllowance allowance_;
  Pool host_;
  Pool device_;
  std::list<const void*> waiting_;  // oldest first
};

/// The part of one product. It plans against the whole limit, as if it were alone, reserves once what it needs and then
/// takes more only if that is free: a product that holds memory never waits, so none waits for ever.
/// Threads: limits and reserve() from the product's thread, the others from any.
class MemoryShare {
 public:
  explicit MemoryShare(MemoryBudget& budget) : budget_(budget) {}
  /// Gives everything back.
  ~MemoryShare();
  MemoryShare(const MemoryShare&) = delete;
  MemoryShare& operator=(const MemoryShare&) = delete;

  /// The limit of all products together. It is what `measure` says where no other product uses this kind of memory, and
  /// stays the same while any does: what they take must not count twice. Errors: what measure() throws.
  std::uint64_t host_limit_bytes(const std::function<std::uint64_t()>& measure);
  std::uint64_t device_limit_bytes(const std::function<std::uint64_t()>& measure);

  /// Waits until both fit in addition to what the others hold, first come, first served. More than a limit means all of
  /// it. Errors: Interrupted once *cancel is true, which may be null.
  void reserve(const MemoryBytes& wanted, const std::atomic<bool>* cancel);

  /// Takes more device memory, if that much is free now.
  bool grow_device(std::uint64_t bytes);

  /// Counts bytes of a result that stays in memory. Errors: OutOfMemory if the limit has no room for them.
  void add_result(std::uint64_t bytes);

  [[nodiscard]] MemoryBytes reserved() const;
  /// What is free now.
  [[nodiscard]] MemoryBytes free() const;

 private:
  std::uint64_t limit_bytes(MemoryBudget::Pool& pool, bool& is_user, const std::function<std::uint64_t()>& measure);

  MemoryBudget& budget_;
  MemoryBytes reserved_;            // guarded by the budget's mutex
  std::uint64_t result_bytes_ = 0;  // the same; part of reserved_.host
  bool uses_host_ = false;
  bool uses_device_ = false;
};

}  // namespace spmm
