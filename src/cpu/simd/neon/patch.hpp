// Sums of 2 rows and 4 columns of C by dot products of four bytes.
// Included within the region for the instruction set of a file: everything here is internal to that file.
#pragma once

namespace spmm::cpu {
namespace {

/// Bytes of 4 columns of B, 8 of each: the first four of all columns, then the others.
struct Columns {
  uint8x16_t parts[2];
};

/// Shapes: left, right [2 columns, 8].
inline Columns columns_of(uint8x16_t left, uint8x16_t right) {
  const uint32x4_t x = vreinterpretq_u32_u8(left);
  const uint32x4_t y = vreinterpretq_u32_u8(right);
  return {{vreinterpretq_u8_u32(vuzp1q_u32(x, y)), vreinterpretq_u8_u32(vuzp2q_u32(x, y))}};
}

struct Patch {
  uint32x4_t parts[2];

  /// Shapes: a [2 rows, 8], bytes.
  void add(uint8x16_t a, const Columns& b) {
    parts[0] = vdotq_laneq_u32(vdotq_laneq_u32(parts[0], b.parts[0], a, 0), b.parts[1], a, 1);
    parts[1] = vdotq_laneq_u32(vdotq_laneq_u32(parts[1], b.parts[0], a, 2), b.parts[1], a, 3);
  }
  [[nodiscard]] uint32x4_t upper() const { return parts[0]; }
  [[nodiscard]] uint32x4_t lower() const { return parts[1]; }
};

}  // namespace
}  // namespace spmm::cpu
