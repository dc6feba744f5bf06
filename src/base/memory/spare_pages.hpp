// Pages of arrays that were freed, for arrays to come: fresh pages have to be cleared by the system first, which takes
// longer than most of what is done with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace spmm {

/// Mapped memory that no array uses, in ranges that are cut and joined as needed.
/// Memory: with all arrays in use never more than what is allowed; kKeptBytes while nothing is allowed, which means
/// that no product runs. Threads: any.
class SparePages {
 public:
  static constexpr std::uint64_t kKeptBytes = 12u << 20;  // for many small products, one after the other

  /// The smallest range that is large enough, cut to size; null if there is none.
  std::byte* take(std::uint64_t bytes);

  /// Keeps a range, or unmaps it where arrays in use and spare pages would pass what is allowed, or memory ends.
  void give(std::byte* data, std::uint64_t bytes, std::uint64_t in_use_bytes) noexcept;

  /// Unmaps until arrays in use and spare pages keep what is allowed.
  void trim(std::uint64_t in_use_bytes) noexcept;

  /// Changes what is allowed.
  void allow(std::uint64_t more_bytes, std::uint64_t less_bytes) noexcept;

  [[nodiscard]] std::uint64_t bytes() const;

 private:
  [[nodiscard]] std::uint64_t room(std::uint64_t in_use_bytes) const;

  mutable std::mutex mutex_;
  std::map<std::byte*, std::uint64_t> ranges_;  // by address, none touches the next
  std::uint64_t bytes_ = 0;
  std::uint64_t allowed_bytes_ = 0;
};

/// Those of this process.
SparePages& spare_pages();

/// While it lives, this process may keep pages as long as its arrays and they take no more than the sum of all
/// allowances. Threads: one at a time.
class SpareAllowance {
 public:
  SpareAllowance() = default;
  ~SpareAllowance() { set(0); }
  SpareAllowance(const SpareAllowance&) = delete;
  SpareAllowance& operator=(const SpareAllowance&) = delete;

  void set(std::uint64_t bytes) noexcept;

 private:
  std::uint64_t bytes_ = 0;
};

}  // namespace spmm
