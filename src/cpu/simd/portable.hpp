// Vectors for any machine, as avx2.hpp has those of AVX2.
#pragma once

#include <cstdint>

#include "cpu/simd/target.hpp"
#include "cpu/simd/tile_kernel.hpp"

namespace spmm::cpu {
namespace {

struct Vectors {
  static void widen(const Halves& from, Lanes& to) { to = __builtin_convertvector(from, Lanes); }
  /// A bit for each lane that is not 0. Shapes: row [8].
  static std::uint32_t nonzero_lanes(const std::uint32_t* row) {
    std::uint32_t lanes = 0;
    for (std::uint32_t c = 0; c < kTileLanes; ++c) lanes |= (row[c] != 0 ? 1u : 0u) << c;
    return lanes;
  }
  /// A bit for each byte that is 0. Shapes: bytes [64].
  static std::uint64_t zero_bytes(const std::uint8_t* bytes) {
    std::uint64_t zero = 0;
    for (std::uint32_t x = 0; x < kScannedSlots; ++x) zero |= std::uint64_t{bytes[x] == 0 ? 1u : 0u} << x;
    return zero;
  }
};

}  // namespace
}  // namespace spmm::cpu
