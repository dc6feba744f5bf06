// Sums of 2 rows and 4 columns of C by products of 2 x 8 and 8 x 2 bytes.
// Included within the region for the instruction set of a file: everything here is internal to that file.
#pragma once

namespace spmm::cpu {
namespace {

/// Bytes of 4 columns of B, 8 of each, two columns to a register.
struct Columns {
  uint8x16_t parts[2];
};

/// Shapes: left, right [2 columns, 8].
inline Columns columns_of(uint8x16_t left, uint8x16_t right) {
  return {{left, right}};
}

struct Patch {
  uint32x4_t parts[2];  // [2 rows, 2 columns] each

  /// Shapes: a [2 rows, 8], bytes.
  void add(uint8x16_t a, const Columns& b) {
    parts[0] = vmmlaq_u32(parts[0], a, b.parts[0]);
    parts[1] = vmmlaq_u32(parts[1], a, b.parts[1]);
  }
  [[nodiscard]] uint32x4_t upper() const {
    return vreinterpretq_u32_u64(vtrn1q_u64(vreinterpretq_u64_u32(parts[0]), vreinterpretq_u64_u32(parts[1])));
  }
  [[nodiscard]] uint32x4_t lower() const {
    return vreinterpretq_u32_u64(vtrn2q_u64(vreinterpretq_u64_u32(parts[0]), vreinterpretq_u64_u32(parts[1])));
  }
};

}  // namespace
}  // namespace spmm::cpu
