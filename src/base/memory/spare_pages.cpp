// Freed mappings, by address, joined with their neighbours and cut again.
#include "base/memory/spare_pages.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/memory/aligned_array.hpp"

namespace spmm {

/// Most bytes of spare pages in addition to so many in use.
std::uint64_t SparePages::room(std::uint64_t in_use_bytes) const {
  return allowed_bytes_ == 0 ? kKeptBytes : allowed_bytes_ - std::min(allowed_bytes_, in_use_bytes);
}

std::byte* SparePages::take(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  auto best = ranges_.end();
  for (auto range = ranges_.begin(); range != ranges_.end(); ++range) {
    if (range->second >= bytes && (best == ranges_.end() || range->second < best->second)) best = range;
  }
  if (best == ranges_.end()) return nullptr;
  auto range = ranges_.extract(best);
  std::byte* const data = range.key();
  range.key() += bytes;
  range.mapped() -= bytes;
  bytes_ -= bytes;
  if (range.mapped() != 0) ranges_.insert(std::move(range));
  return data;
}

void SparePages::give(std::byte* data, std::uint64_t bytes, std::uint64_t in_use_bytes) noexcept try {
  const std::lock_guard lock(mutex_);
  if (bytes_ + bytes > room(in_use_bytes)) {
    munmap(data, bytes);
    return;
  }
  const auto range = ranges_.emplace(data, bytes).first;
  bytes_ += bytes;
  const auto join = [&](auto left, auto right) {
    if (left->first + left->second != right->first) return;
    left->second += right->second;
    ranges_.erase(right);
  };
  if (std::next(range) != ranges_.end()) join(range, std::next(range));
  if (range != ranges_.begin()) join(std::prev(range), range);
} catch (const std::bad_alloc&) {
  munmap(data, bytes);
}

void SparePages::trim(std::uint64_t in_use_bytes) noexcept {
  const std::lock_guard lock(mutex_);
  while (bytes_ > room(in_use_bytes)) {
    // What is too much goes from the end of the last range.
    const auto last = std::prev(ranges_.end());
    const std::uint64_t page = page_bytes();
    const std::uint64_t too_much = bytes_ - room(in_use_bytes);
    const std::uint64_t cut = std::min(last->second, (too_much + page - 1) / page * page);
    munmap(last->first + last->second - cut, cut);
    last->second -= cut;
    bytes_ -= cut;
    if (last->second == 0) ranges_.erase(last);
  }
}

void SparePages::allow(std::uint64_t more_bytes, std::uint64_t less_bytes) noexcept {
  const std::lock_guard lock(mutex_);
  allowed_bytes_ += more_bytes;
  allowed_bytes_ -= less_bytes;
}

std::uint64_t SparePages::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

SparePages& spare_pages() {
  static SparePages* const pages = new SparePages;  // never destroyed: arrays may be freed while the process ends
  return *pages;
}

void SpareAllowance::set(std::uint64_t bytes) noexcept {
  if (bytes == bytes_) return;
  spare_pages().allow(bytes, bytes_);
  bytes_ = bytes;
  spare_pages().trim(array_bytes());
}

}  // namespace spmm
