// What the products of one engine may take together, in host and device memory; who asks for too much waits.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/memory/kept_items.hpp"
#include "base/memory/spare_pages.hpp"

namespace spmm {

/// Bytes of host and device memory.
struct MemoryBytes {
  std::uint64_t host = 0;
  std::uint64_t device = 0;
};

/// An operand of a product, which may be kept or may become so.
struct KeptWish {
  std::optional<SourceIdentity> identity{};  ///< nothing: neither
  bool keep = false;                         ///< if it is not kept yet
  std::uint64_t bytes = 0;                   ///< what keeping it takes at most
};

/// One limit for the host and one for the device, shared by the products of an engine (MemoryShare). Threads: any.
/// Kept operands: while products use one, their shares cover it, for they reserve as if each had its own; an idle one
/// counts in addition to them, and goes as soon as a product wants its memory. No product waits or fails for an idle
/// one. Memory: pages of freed arrays are kept within what the running products have reserved (SpareAllowance), and
/// between two products, where `keeps_pages`, as much as the last one had.
class MemoryBudget {
 public:
  explicit MemoryBudget(bool keeps_pages = false) : keeps_pages_(keeps_pages) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  /// Products that wait for memory now.
  [[nodiscard]] std::size_t num_waiting() const;

  /// Whether this operand is kept now, or about to be.
  [[nodiscard]] bool keeps(const SourceIdentity& identity) const;

 private:
  friend class MemoryShare;
  friend class KeptClaim;

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

  /// Drops idle items, but none of some files, until that much device memory is free in addition to the rest; false,
  /// with nothing dropped, where products hold too much. The mutex must be held.
  bool make_room(std::uint64_t bytes, std::span<const SourceIdentity> except = {});

  void allow_pages() { allowance_.set(std::max(host_.used_bytes - result_bytes_, kept_page_bytes_)); }

  const bool keeps_pages_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  KeptItems kept_;  // items are destroyed under the mutex: what is counted free is free
  std::uint64_t kept_page_bytes_ = 0;
  std::uint64_t result_bytes_ = 0;  // part of host_.used_bytes: results in memory, which are no arrays of the engine
  SpareAllowance allowance_;
  Pool host_;
  Pool device_;
  std::list<const void*> waiting_;  // oldest first
};

/// The use of a kept operand, or the promise of one. Ends the use, or withdraws the promise, when it goes.
class KeptClaim {
 public:
  KeptClaim() = default;
  KeptClaim(KeptClaim&& other) noexcept { swap(other); }
  KeptClaim& operator=(KeptClaim&& other) noexcept {
    KeptClaim old(std::move(*this));
    swap(other);
    return *this;
  }
  ~KeptClaim() { release(); }

  /// The operand; null if there is none.
  [[nodiscard]] const KeptItems::Item& item() const { return item_; }
  /// Whether other products may be waiting for this one to provide it.
  [[nodiscard]] bool is_promised() const { return budget_ != nullptr && item_ == nullptr; }
  /// Fulfils the promise; this product is the first to use the operand.
  void provide(std::uint64_t bytes, KeptItems::Item item);
  void release() noexcept;

 private:
  friend class MemoryShare;
  KeptClaim(MemoryBudget& budget, KeptItems::Id id, KeptItems::Item item)
      : budget_(&budget), id_(id), item_(std::move(item)) {}
  void swap(KeptClaim& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(id_, other.id_);
    std::swap(item_, other.item_);
  }

  MemoryBudget* budget_ = nullptr;
  KeptItems::Id id_ = 0;
  KeptItems::Item item_;
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
  /// it. Operands of `files` that are kept stay so until claim(): `wanted` covers them. Errors: Interrupted once
  /// *cancel is true, which may be null.
  void reserve(const MemoryBytes& wanted, const std::atomic<bool>* cancel, std::span<const SourceIdentity> files = {});

  /// How long claim() waits for another product: a file of some 10 GB comes in that time.
  static constexpr std::chrono::milliseconds kPatience{10'000};

  /// For each wish the kept operand; else, where it is to be kept and takes less than half of the device's limit, a
  /// promise; else nothing. Waits for what another product has promised, but not longer than `patience`, and then asks
  /// no more. Call it once, behind reserve().
  /// Errors: Interrupted.
  std::vector<KeptClaim> claim(std::span<const KeptWish> wishes, const std::atomic<bool>* cancel,
                               std::chrono::milliseconds patience = kPatience);

  /// Ends the use of an operand with this share: what the product reserved covers it until then, and it need not go for
  /// lack of room in addition to that. Behind claim(), at most once per wish.
  void hold(KeptClaim claim) noexcept { held_.push_back(std::move(claim)); }

  /// Drops all idle operands; false if there were none.
  bool drop_kept();

  /// Takes more, if that much is free now.
  bool grow_host(std::uint64_t bytes);
  bool grow_device(std::uint64_t bytes);

  /// Counts bytes of a result that stays in memory. Errors: OutOfMemory if the limit has no room for them.
  void add_result(std::uint64_t bytes);

  [[nodiscard]] MemoryBytes reserved() const;
  /// What grow_host() and grow_device() could take now.
  [[nodiscard]] MemoryBytes free() const;

 private:
  std::uint64_t limit_bytes(MemoryBudget::Pool& pool, bool& is_user, const std::function<std::uint64_t()>& measure);

  MemoryBudget& budget_;
  std::vector<KeptClaim> held_;     // from reserve() to claim(), and by hold()
  MemoryBytes reserved_;            // guarded by the budget's mutex
  std::uint64_t result_bytes_ = 0;  // the same; part of reserved_.host
  bool uses_host_ = false;
  bool uses_device_ = false;
};

}  // namespace spmm
