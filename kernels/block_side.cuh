// From the block side m, known at run time, to a compiled one: no other file dispatches m.
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

/// Calls body(BlockSide<m>()) where m is one of Sides, else body(BlockSide<0>()).
template <std::uint32_t... Sides, class Body>
void for_block_side(std::uint32_t m, const Body& body) {
  const auto is_side = [&](auto side) {
    if (m != side.value) return false;
    body(side);
    return true;
  };
  if (!(is_side(BlockSide<Sides>{}) || ...)) body(BlockSide<0>{});
}

/// The same for all of kBlockSides.
template <class Body>
void for_multiply_side(std::uint32_t m, const Body& body) {
  [&]<std::size_t... X>(std::index_sequence<X...>) {
    for_block_side<kBlockSides[X]...>(m, body);
  }
  (std::make_index_sequence<std::size(kBlockSides)>{});
}

}  // namespace spmm::kernels
