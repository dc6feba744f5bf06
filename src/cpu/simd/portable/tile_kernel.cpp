// The kernels for small blocks on any machine, and which one to take.
#include <bit>
#include <cstring>

#include "cpu/simd/tile_kernel.hpp"
#include "plan/panels/tiles.hpp"
#include "spmm/types.hpp"

namespace spmm::cpu {
namespace {

inline void widen(const Halves& from, Lanes& to) {
  to = __builtin_convertvector(from, Lanes);
}

/// A bit per lane that is not 0. Shapes: row [8].
inline std::uint32_t nonzero_lanes(const std::uint32_t* row) {
  std::uint32_t lanes = 0;
  for (std::uint32_t c = 0; c < plan::kTileLanes; ++c) lanes |= (row[c] != 0 ? 1u : 0u) << c;
  return lanes;
}

/// A bit per byte that is 0. Shapes: bytes [64].
inline std::uint64_t zero_bytes(const std::uint8_t* bytes) {
  std::uint64_t zero = 0;
  for (std::uint32_t x = 0; x < kScannedSlots; ++x) zero |= std::uint64_t{bytes[x] == 0 ? 1u : 0u} << x;
  return zero;
}

}  // namespace
}  // namespace spmm::cpu

#include "cpu/simd/tile_sums.hpp"

namespace spmm::cpu {

TileKernel portable_tile_kernel(std::uint32_t m) {
  return tile_kernel_for(m);
}

TileKernel choose_tile_kernel(Isa isa, std::uint32_t m, std::uint32_t max_element) {
  switch (isa) {
    case Isa::avx512_vnni:
      return avx512_tile_kernel(m, max_element);
    case Isa::avx2:
      return avx2_tile_kernel(m);
    default:
      break;
  }
  return portable_tile_kernel(m);
}

}  // namespace spmm::cpu
