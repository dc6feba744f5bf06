// Which bytes of a shared file a rank writes itself. A pure function.
#pragma once

#include <algorithm>
#include <cstdint>

namespace spmm::mpi {

/// A range of a file cut at pages: `whole` is written by the rank that has the range, `head` and `tail`, which share
/// their pages with neighbours, by rank 0.
struct PageSplit {
  std::uint64_t begin = 0;
  std::uint64_t whole_begin = 0;
  std::uint64_t whole_end = 0;
  std::uint64_t end = 0;

  [[nodiscard]] std::uint64_t head_bytes() const { return whole_begin - begin; }
  [[nodiscard]] std::uint64_t whole_bytes() const { return whole_end - whole_begin; }
  [[nodiscard]] std::uint64_t tail_bytes() const { return end - whole_end; }

  friend bool operator==(const PageSplit&, const PageSplit&) = default;
};

/// Cuts [begin, end); without a whole page inside, all of it is head. Each of head and tail is less than two pages.
/// Network file systems keep whole pages of a file in each machine's memory: two machines that write parts of one page
/// may lose one of them. Values: page_bytes = of the machines' memory, the same for all ranks.
constexpr PageSplit split_pages(std::uint64_t begin, std::uint64_t end, std::uint64_t page_bytes) {
  const std::uint64_t first = (begin + page_bytes - 1) / page_bytes * page_bytes;
  const std::uint64_t last = end / page_bytes * page_bytes;
  if (first >= last) return {.begin = begin, .whole_begin = end, .whole_end = end, .end = end};
  return {.begin = begin, .whole_begin = first, .whole_end = last, .end = end};
}

}  // namespace spmm::mpi
