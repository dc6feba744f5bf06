#include "plan/memory/packed_shape.hpp"

#include "plan/panels/tiles.hpp"

namespace spmm::plan {
namespace {

constexpr std::uint32_t kStripRows = 8;
constexpr std::uint32_t kStripCols = 8;

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
  if (has_tight_rows(m)) return tight_shape(m);
  return {.m = m,
          .rows = round_up(m, kStripRows),
          .inner = round_up(m, 2),
          .cols = round_up(m, kStripCols),
          .packing = Packing::row_pairs};
}

}  // namespace spmm::plan
