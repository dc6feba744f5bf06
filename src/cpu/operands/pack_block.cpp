#include "cpu/operands/pack_block.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "spmm/types.hpp"

namespace spmm::cpu {
namespace {

constexpr std::size_t kMaxBlockElements = std::size_t{kMaxBlockDim} * kMaxBlockDim;

std::uint32_t bits_of(const std::uint16_t* values, std::size_t count) {
  std::uint16_t bits = 0;
  for (std::size_t e = 0; e < count; ++e) bits = static_cast<std::uint16_t>(bits | values[e]);
  return bits;
}

/// Row-major, padded to [rows, stride].
/// Values: kSide = m and kPadded = rows = stride where they are known when compiling, else 0.
template <std::uint32_t kSide, std::uint32_t kPadded>
std::uint32_t pack_rows(std::uint32_t side, std::uint32_t rows, std::uint32_t stride, const std::byte* raw,
                        std::uint16_t* out) {
  const std::size_t m = kSide != 0 ? kSide : side;
  if (kSide == kPadded && m == rows && m == stride) {
    std::memcpy(out, raw, m * m * sizeof *out);
    return bits_of(out, m * m);
  }
  std::fill_n(out, kSide != 0 ? std::size_t{kPadded} * kPadded : std::size_t{rows} * stride, std::uint16_t{0});
  const std::size_t width = kSide != 0 ? kPadded : stride;
  for (std::size_t r = 0; r < m; ++r) std::memcpy(out + r * width, raw + r * m * sizeof *out, m * sizeof *out);
  if constexpr (kSide != 0) return bits_of(out, std::size_t{kPadded} * kPadded);
  std::uint32_t bits = 0;
  for (std::size_t r = 0; r < m; ++r) bits |= bits_of(out + r * width, m);
  return bits;
}

/// [inner / 2, cols, 2], padded. Values: kSide = m and kPadded = cols where they are known when compiling, as above.
template <std::uint32_t kSide, std::uint32_t kPadded>
std::uint32_t pack_interleaved(const PackedShape& shape, const std::byte* raw, std::uint16_t* out) {
  const std::size_t m = kSide != 0 ? kSide : shape.m;
  const std::size_t cols = kSide != 0 ? kPadded : shape.cols;
  constexpr std::size_t kMaxSide = kSide != 0 ? kPadded : kMaxBlockDim;
  std::array<std::uint16_t, kMaxSide*(kMaxSide + 1)> block;  // a row of zeros follows
  std::memcpy(block.data(), raw, m * m * sizeof(std::uint16_t));
  std::fill_n(block.data() + m * m, m, std::uint16_t{0});
  std::array<std::uint32_t, kMaxSide> both{};  // two rows, element by element
  for (std::size_t t = 0; t < m; t += 2) {
    const std::uint16_t* const upper = block.data() + t * m;
    const std::uint16_t* const lower = upper + m;
    for (std::size_t c = 0; c < m; ++c) both[c] = upper[c] | std::uint32_t{lower[c]} << 16;
    std::memcpy(out + t * cols, both.data(), cols * sizeof(std::uint32_t));
  }
  const std::size_t used = (m + 1) / 2 * 2 * cols;
  const std::size_t elements = kSide != 0 ? std::size_t{kPadded} * kPadded : shape.b_elements();
  if (used < elements) std::fill(out + used, out + elements, std::uint16_t{0});
  return bits_of(block.data(), m * m);
}

template <std::uint32_t kSide, std::uint32_t kPadded>
std::uint32_t pack_a(const PackedShape& shape, const std::byte* raw, std::uint16_t* out) {
  if constexpr (kSide != 0) return pack_rows<kSide, kPadded>(kSide, kPadded, kPadded, raw, out);
  return pack_rows<0, 0>(shape.m, shape.rows, shape.inner, raw, out);
}

std::uint32_t pack_b_plain(const PackedShape& shape, const std::byte* raw, std::uint16_t* out) {
  return pack_rows<0, 0>(shape.m, shape.inner, shape.cols, raw, out);
}

}  // namespace

PackBlock choose_pack_a(const PackedShape& shape) {
  if (shape.packing == Packing::rows) return pack_a<0, 0>;
  switch (shape.m) {
    case 4:
      return pack_a<4, 4>;
    case 5:
      return pack_a<5, 8>;
    case 6:
      return pack_a<6, 8>;
    case 7:
      return pack_a<7, 8>;
    case 8:
      return pack_a<8, 8>;
    default:
      return pack_a<0, 0>;
  }
}

PackBlock choose_pack_b(const PackedShape& shape) {
  if (shape.packing == Packing::rows) return pack_b_plain;
  switch (shape.m) {
    case 4:
      return pack_interleaved<4, 4>;
    case 5:
      return pack_interleaved<5, 8>;
    case 6:
      return pack_interleaved<6, 8>;
    case 7:
      return pack_interleaved<7, 8>;
    case 8:
      return pack_interleaved<8, 8>;
    default:
      return pack_interleaved<0, 0>;
  }
}

}  // namespace spmm::cpu
