#include "plan/memory/packed_shape.hpp"

#include "plan/panels/tiles.hpp"

namespace spmm::plan {
namespace {

constexpr std::uint32_t kStripRows = 8;
constexpr std::uint32_t kStripCols = 8;
constexpr std::uint32_t kStripDepth = 8;  // of bytes

constexpr std::uint32_t round_up(std::uint32_t value, std::uint32_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

PackedShape packed_shape(Isa isa, std::uint32_t m) {
  if (isa == Isa::portable || sums_in_tiles(m))
    return {.m = m, .rows = m, .inner = m, .cols = m, .packing = Packing::rows};
  const bool by_bytes = isa == Isa::neon_dotprod || isa == Isa::neon_i8mm;
  const Packing packing = by_bytes ? Packing::columns : Packing::row_pairs;
  for (const std::uint32_t side : {4u, 8u}) {
    if (m <= side) return {.m = m, .rows = side, .inner = side, .cols = side, .packing = packing};
  }
  if (!by_bytes && has_tight_rows(m)) return tight_shape(m);
  return {.m = m,
          .rows = round_up(m, kStripRows),
          .inner = round_up(m, by_bytes ? kStripDepth : 2),
          .cols = round_up(m, kStripCols),
          .packing = packing};
}

}  // namespace spmm::plan
