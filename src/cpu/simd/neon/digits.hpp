// Byte digits of 16-bit elements, and sums of their products, in registers of NEON.
// Included within the region for the instruction set of a file: everything here is internal to that file.
#pragma once

namespace spmm::cpu {
namespace {

/// Bytes of two runs of 8 elements: those of the first one, then those of the second.
struct Digits {
  uint8x16_t low;
  uint8x16_t high;  // wide arithmetic only
};

template <bool kWide>
inline Digits split(const std::uint16_t* first, const std::uint16_t* second) {
  const uint8x16_t x = vreinterpretq_u8_u16(vld1q_u16(first));
  const uint8x16_t y = vreinterpretq_u8_u16(vld1q_u16(second));
  return {.low = vuzp1q_u8(x, y), .high = kWide ? vuzp2q_u8(x, y) : x};
}

/// low + 2^8 * middle + 2^16 * high, clamped. Values: of one run (choose_arithmetic), so that no carry is lost.
inline uint32x4_t join_digits(uint32x4_t low, uint32x4_t middle, uint32x4_t high) {
  middle = vsraq_n_u32(middle, low, 8);
  high = vsraq_n_u32(high, middle, 8);
  const uint32x4_t sum = vsliq_n_u32(vsliq_n_u32(low, middle, 8), high, 16);
  return vorrq_u32(sum, vcgtq_u32(high, vdupq_n_u32(0xFFFF)));
}

/// Sums of a block of C of side 4: a register per row.
struct Sums4 {
  uint32x4_t rows[4];

  /// Shapes: a [4 rows, 4], b [4 columns, 4], bytes.
  void add(uint8x16_t a, uint8x16_t b) {
    rows[0] = vdotq_laneq_u32(rows[0], b, a, 0);
    rows[1] = vdotq_laneq_u32(rows[1], b, a, 1);
    rows[2] = vdotq_laneq_u32(rows[2], b, a, 2);
    rows[3] = vdotq_laneq_u32(rows[3], b, a, 3);
  }
};

/// Sums of products of digits, for Sums = Sums4 or Patch.
template <class Sums, class A, class B>
inline void add_digits(Sums& low, Sums& middle, Sums& high, const A& a, const B& b) {
  low.add(a.low, b.low);
  middle.add(a.low, b.high);
  middle.add(a.high, b.low);
  high.add(a.high, b.high);
}

}  // namespace
}  // namespace spmm::cpu
