// Freed mappings, sorted by address, joined with their neighbours and cut again.
#include "base/memory/spare_pages.hpp"

#include <sys/mman.h>

#include <algorithm>

#include "base/memory/aligned_array.hpp"

namespace spmm {

/// Most bytes of spare pages in addition to so many in use.
std::uint64_t SparePages::room(std::uint64_t in_use_bytes) const {
  return allowed_bytes_ == 0 ? kKeptBytes : allowed_bytes_ - std::min(allowed_bytes_, in_use_bytes);
}

void SparePages::remove(std::size_t at) {
  std::copy(ranges_.begin() + at + 1, ranges_.begin() + size_, ranges_.begin() + at);
  --size_;
}

std::byte* SparePages::take(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  std::size_t best = size_;
  for (std::size_t x = 0; x < size_; ++x) {
    if (ranges_[x].bytes < bytes) continue;
    if (best == size_ || ranges_[x].bytes < ranges_[best].bytes) best = x;
  }
  if (best == size_) return nullptr;
  Range& range = ranges_[best];
  std::byte* const data = range.data;
  range.data += bytes;
  range.bytes -= bytes;
  bytes_ -= bytes;
  if (range.bytes == 0) remove(best);
  return data;
}

void SparePages::give(std::byte* data, std::uint64_t bytes, std::uint64_t in_use_bytes) noexcept {
  const std::lock_guard lock(mutex_);
  if (bytes_ + bytes > room(in_use_bytes)) {
    munmap(data, bytes);
    return;
  }
  if (size_ == ranges_.size()) unmap_smallest();
  const auto begin = ranges_.begin();
  const auto next = std::upper_bound(begin, begin + size_, data,
                                     [](const std::byte* of_new, const Range& range) { return of_new < range.data; });
  auto at = static_cast<std::size_t>(next - begin);
  std::copy_backward(next, begin + size_, begin + size_ + 1);
  ranges_[at] = {.data = data, .bytes = bytes};
  ++size_;
  bytes_ += bytes;
  if (at + 1 < size_ && ranges_[at].data + ranges_[at].bytes == ranges_[at + 1].data) {
    ranges_[at].bytes += ranges_[at + 1].bytes;
    remove(at + 1);
  }
  if (at > 0 && ranges_[at - 1].data + ranges_[at - 1].bytes == ranges_[at].data) {
    ranges_[at - 1].bytes += ranges_[at].bytes;
    remove(at);
  }
}

void SparePages::unmap_smallest() {
  const auto smallest = std::min_element(ranges_.begin(), ranges_.begin() + size_,
                                         [](const Range& x, const Range& y) { return x.bytes < y.bytes; });
  munmap(smallest->data, smallest->bytes);
  bytes_ -= smallest->bytes;
  remove(static_cast<std::size_t>(smallest - ranges_.begin()));
}

void SparePages::trim(std::uint64_t in_use_bytes) noexcept {
  const std::lock_guard lock(mutex_);
  while (bytes_ > room(in_use_bytes)) {
    // What is too much goes from the end of the last range.
    Range& last = ranges_[size_ - 1];
    const std::uint64_t page = page_bytes();
    const std::uint64_t too_much = bytes_ - room(in_use_bytes);
    const std::uint64_t cut = std::min(last.bytes, (too_much + page - 1) / page * page);
    munmap(last.data + last.bytes - cut, cut);
    last.bytes -= cut;
    bytes_ -= cut;
    if (last.bytes == 0) --size_;
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
  static SparePages pages;
  return pages;
}

void SpareAllowance::set(std::uint64_t bytes) noexcept {
  if (bytes == bytes_) return;
  spare_pages().allow(bytes, bytes_);
  bytes_ = bytes;
  spare_pages().trim(array_bytes());
}

}  // namespace spmm
