// Whether a signal asks for the first time, or again.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

namespace spmm::cli {

/// Time of the first signal, in one atomic: a handler that runs on another thread at the same time sees all or nothing.
/// Threads: any number, also from signal handlers.
class StopRequest {
 public:
  /// Whether a signal at now_ms comes after an earlier one that was not part of the same request. Signals that arrive
  /// together (timeout(1) signals the program and its group) count as one.
  bool is_repeated(std::int64_t now_ms) noexcept {
    constexpr std::int64_t kSameRequestMs = 300;
    std::int64_t first_ms = kNone;
    if (first_ms_.compare_exchange_strong(first_ms, now_ms)) return false;
    return now_ms - first_ms > kSameRequestMs;
  }

 private:
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::min();
  static_assert(std::atomic<std::int64_t>::is_always_lock_free, "signal handlers use it");

  std::atomic<std::int64_t> first_ms_{kNone};
};

}  // namespace spmm::cli
