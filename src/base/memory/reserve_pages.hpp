// Vectors of results in memory.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <vector>

#include "base/memory/aligned_array.hpp"

namespace spmm {

/// Room for `most` elements. Pages are taken as they are filled, so that a bound may be several times too high; huge
/// ones, of which few are cleared one by one.
template <class T>
void reserve_pages(std::vector<T>& array, std::uint64_t most) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;
  constexpr std::uint64_t kLargeBytes = 4u << 20;
  const std::uint64_t bytes = most * sizeof(T);
  if (most <= array.capacity() || bytes > kMostBytes) return;
  try {
    array.reserve(most);
  } catch (const std::bad_alloc&) {
    return;  // it grows instead
  }
  if (bytes < kLargeBytes) return;
  const std::uint64_t page = page_bytes();
  const std::uint64_t begin = (reinterpret_cast<std::uintptr_t>(array.data()) + page - 1) / page * page;
  static_cast<void>(::madvise(reinterpret_cast<void*>(begin), bytes - page, MADV_HUGEPAGE));  // only advice
}

}  // namespace spmm
