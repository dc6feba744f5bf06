// Memory that rows to come will need: a short row is done before what it needs of B arrives.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/operands/operand.hpp"

namespace spmm::cpu {

/// Pairs up to which a row is short.
inline constexpr std::uint32_t kShortRowPairs = 256;

/// Rows between a fetch and its use: one address leads to the next.
inline constexpr std::uint32_t kPointerRowsAhead = 16;
inline constexpr std::uint32_t kColumnRowsAhead = 8;
inline constexpr std::uint32_t kBlockRowsAhead = 4;

/// GCC 12 takes a function that only fetches for one without effect and drops its calls; the empty statement is one.
inline void fetch(const void* address) {
  __builtin_prefetch(address);
  asm volatile("");
}

/// The same into the second-level cache: more of these may be on their way.
inline void fetch_near(const void* address) {
  __builtin_prefetch(address, 0, 2);
  asm volatile("");
}

/// Calls body(row of B) for the first blocks of the row of A that comes `ahead` rows after `row`. Values: A linked to
/// B.
template <class Body>
void for_rows_of_b(const PackedOperand& a, std::uint64_t row, std::uint32_t ahead, const Body& body) {
  const std::uint64_t at = row + ahead;
  if (at >= a.num_rows()) return;
  const std::uint32_t end = std::min(a.row_ptr[at + 1], a.row_ptr[at] + kShortRowPairs);
  for (std::uint32_t x = a.row_ptr[at]; x < end; ++x) {
    if (a.b_rows()[x] != kNoRow) body(a.b_rows()[x]);
  }
}

}  // namespace spmm::cpu
