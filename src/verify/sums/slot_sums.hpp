// Sums modulo p by element row, added up by several threads.
#pragma once

#include <sched.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/memory/aligned_array.hpp"
#include "verify/sums/field61.hpp"

namespace spmm {

/// One of some locks, for a few instructions each. Threads: any.
class SlotLocks {
 public:
  class Guard {
   public:
    explicit Guard(std::atomic<bool>& lock) : lock_(lock) {
      while (lock_.exchange(true, std::memory_order_acquire)) {
        for (int spins = 0; lock_.load(std::memory_order_relaxed); ++spins) {
          if (spins >= kSpins) ::sched_yield();  // who holds it may have lost its core
        }
      }
    }
    ~Guard() { lock_.store(false, std::memory_order_release); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    static constexpr int kSpins = 100;
    std::atomic<bool>& lock_;
  };

  [[nodiscard]] Guard lock(std::uint64_t slot) { return Guard(locks_[slot % kNumLocks].taken); }

 private:
  static constexpr std::uint64_t kNumLocks = 256;
  struct alignas(64) Lock {
    std::atomic<bool> taken{false};
  };
  std::array<Lock, kNumLocks> locks_;
};

/// A vector with an entry below p for each element row. Shapes: [slots, m].
class SlotSums {
 public:
  SlotSums() = default;
  /// All zero. Memory: 8 bytes each. Errors: OutOfMemory.
  SlotSums(std::uint64_t num_slots, std::uint32_t m) : m_(m), sums_(num_slots * m) {
    if (sums_.size() != 0) std::memset(sums_.data(), 0, sums_.size() * sizeof(std::uint64_t));
  }

  [[nodiscard]] std::uint64_t* at(std::uint64_t slot) const { return sums_.data() + slot * m_; }
  [[nodiscard]] bool is_empty() const { return sums_.size() == 0; }

  /// Shapes: values [m]. Threads: the slot's lock is held.
  void add(std::uint64_t slot, const std::uint64_t* values) const {
    std::uint64_t* const to = at(slot);
    for (std::uint32_t r = 0; r < m_; ++r) to[r] = add61(to[r], values[r]);
  }
  void subtract(std::uint64_t slot, const std::uint64_t* values) const {
    std::uint64_t* const to = at(slot);
    for (std::uint32_t r = 0; r < m_; ++r) to[r] = subtract61(to[r], values[r]);
  }

 private:
  std::uint32_t m_ = 0;
  AlignedArray<std::uint64_t> sums_;
};

}  // namespace spmm
