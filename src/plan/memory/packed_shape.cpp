#include "plan/memory/packed_shape.hpp"

#include "plan/panels/tiles.hpp"

namespace spmm::plan {
namespace {

constexpr std::uint32_t round_up(std::uint32_t value, std::uint32_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

PackedShape packed_shape(Isa isa, std::uint32_t m) {
  if (isa == Isa::portable || sums_in_tiles(m))
    return {.m = m, .rows = m, .inner = m, .cols = m, .packing = Packing::rows};
  for (const std::uint32_t side : {4u, 8u}) {
    if (m <= side) return {.m = m, .rows = side, .inner = side, .cols = side, .packing = Packing::row_pairs};
  }
  return {.m = m,
          .rows = m,
          .inner = round_up(m, 2),
          .cols = round_up(m, isa == Isa::avx512_vnni ? 16 : 8),
          .packing = Packing::row_pairs};
}

}  // namespace spmm::plan
