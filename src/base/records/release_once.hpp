// Calls the release function of a piece of output exactly once, whatever fails in between.
#pragma once

#include <functional>
#include <utility>

namespace spmm {

/// Calls a function once: when it is destroyed, wherever that happens.
class ReleaseOnce {
 public:
  explicit ReleaseOnce(std::function<void()> release) noexcept : release_(std::move(release)) {}
  ReleaseOnce(ReleaseOnce&& other) noexcept : release_(std::exchange(other.release_, nullptr)) {}
  ReleaseOnce& operator=(ReleaseOnce&&) = delete;
  ~ReleaseOnce() {
    if (release_) release_();
  }

  /// Hands the duty on to a sink, which calls the function instead.
  [[nodiscard]] std::function<void()> hand_on() noexcept { return std::exchange(release_, nullptr); }

 private:
  std::function<void()> release_;
};

}  // namespace spmm
