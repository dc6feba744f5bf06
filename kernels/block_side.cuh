// From the block side m, known at run time, to a compiled one: no other file dispatches m. Types of elements and
// indices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <utility>

#include "kernels/tuning.hpp"

namespace spmm::kernels {

/// A compiled block side, 0 = m stays a run-time value.
template <std::uint32_t M>
using BlockSide = std::integral_constant<std::uint32_t, M>;

/// Calls body(BlockSide<m>()) if m is one of Sides, else body(BlockSide<0>()).
template <std::uint32_t... Sides, class Body>
void for_block_side(std::uint32_t m, const Body& body) {
  const auto is_side = [&](auto side) {
    if (m != side.value) return false;
    body(side);
    return true;
  };
  if (!(is_side(BlockSide<Sides>{}) || ...)) body(BlockSide<0>{});
}

/// Calls body(BlockSide<P>()), P = padded_side(m).
template <class Body>
void for_padded_side(std::uint32_t m, const Body& body) {
  const auto known = [&](auto side) {
    if constexpr (decltype(side)::value != 0) body(side);
  };
  [&]<std::size_t... X>(std::index_sequence<X...>) {
    for_block_side<kBlockSides[X]...>(padded_side(m), known);
  }
  (std::make_index_sequence<std::size(kBlockSides)>{});
}

/// Calls body(BlockSide<P>(), BlockSide<M>()): P as above; M = m if small blocks are not padded, so that records are
/// addressed without run-time divisions, else 0.
template <class Body>
void for_row_sides(std::uint32_t m, const Body& body) {
  for_padded_side(m, [&](auto side) {
    if constexpr (decltype(side)::value <= 8) {
      if (m == side.value) {
        body(side, side);
        return;
      }
    }
    body(side, BlockSide<0>{});
  });
}

/// N successive elements, moved at once.
template <std::uint32_t N>
struct alignas(2 * N) Elements {
  std::uint16_t x[N];
};

/// Calls body(Index()) with the type of integers of 4 or 8 bytes.
template <class Body>
void for_index_type(std::uint32_t index_bytes, const Body& body) {
  if (index_bytes == 8) {
    body(std::int64_t{});
  } else {
    body(std::int32_t{});
  }
}

}  // namespace spmm::kernels
