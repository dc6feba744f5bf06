// Multiply kernels on byte digits: what neon and i8mm share. The file defines Patch and Columns before (patch.hpp).
// Included within the region for the instruction set of a file: everything here is internal to that file.
#pragma once

namespace spmm::cpu {
namespace {

/// The sums of a block straight into its record, which has no padding; whether one is not zero.
template <class Kernel, bool kWide>
inline bool run_into_record(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count, std::byte* out) {
  constexpr std::uint32_t kSide = Kernel::kSide;
  auto* const values = reinterpret_cast<std::uint32_t*>(out);
  Kernel::template run<kWide, kSide>(x, pairs, count, values);
  uint32x4_t any = vdupq_n_u32(0);
  for (std::uint32_t e = 0; e < kSide * kSide; e += 4) any = vorrq_u32(any, vld1q_u32(values + e));
  return vmaxvq_u32(any) != 0;
}

/// Side 4: a register per row. One digit holds all of a block, so that dot products of four waste nothing.
struct Side4 {
  static constexpr std::uint32_t kSide = 4;
  static constexpr std::uint32_t kMaxRows = kSide;
  static constexpr std::uint32_t kMaxCols = kSide;
  static constexpr std::uint32_t kRunPairs = 0xFFFF'FFFFu;

  template <bool kWide, std::uint32_t kM>
  static void run(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count, std::uint32_t* out) {
    Sums4 low{};
    Sums4 middle{};
    Sums4 high{};
    for (std::uint32_t p = 0; p < count; ++p) {
      __builtin_prefetch(x.b + pairs[p + kPairsAhead].b * std::size_t{16});
      const std::uint16_t* const at_a = x.a + pairs[p].a * std::size_t{16};
      const std::uint16_t* const at_b = x.b + pairs[p].b * std::size_t{16};
      const Digits a = split<kWide>(at_a, at_a + 8);
      const Digits b = split<kWide>(at_b, at_b + 8);
      if constexpr (kWide) {
        add_digits(low, middle, high, a, b);
      } else {
        low.add(a.low, b.low);
      }
    }
    for (std::uint32_t r = 0; r < kSide; ++r) {
      vst1q_u32(out + 4 * r, kWide ? join_digits(low.rows[r], middle.rows[r], high.rows[r]) : low.rows[r]);
    }
  }

  template <bool kWide, std::uint32_t kM>
  static bool run_and_store(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count, std::byte* out) {
    return run_into_record<Side4, kWide>(x, pairs, count, out);
  }
};

/// Strips of up to 8 rows (4, wide) and 8 columns. Values: kConstantSide = the padded side if known when compiling,
/// else 0.
template <std::uint32_t kConstantSide>
struct Strips {
  static constexpr std::uint32_t kSide = kConstantSide;
  static constexpr std::uint32_t kMaxRows = kSide != 0 ? kSide : kMaxBlockDim;
  static constexpr std::uint32_t kMaxCols = kMaxRows;
  static constexpr std::uint32_t kRunPairs = kSide == 8 ? 64 : 16;  // blocks of one run stay in cache for all strips
  static constexpr std::uint32_t kDepth = 8;                        // elements of A and B that meet in one step

  /// Columns of B, of both digits.
  struct BothColumns {
    Columns low;
    Columns high;
  };
  template <bool kWide>
  static BothColumns load_columns(const std::uint16_t* b, std::size_t stride) {
    const Digits left = split<kWide>(b, b + stride);
    const Digits right = split<kWide>(b + 2 * stride, b + 3 * stride);
    return {.low = columns_of(left.low, right.low), .high = columns_of(left.high, right.high)};
  }

  /// Shapes: out [kRows, cols], from the strip's first element on. Values: first_row, first_col = of the strip.
  template <bool kWide, std::uint32_t kRows>
  static void run_strip(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count, std::uint32_t first_row,
                        std::uint32_t first_col, std::uint32_t* out) {
    constexpr std::uint32_t kQuads = kWide ? 1 : 2;
    const std::size_t side = kSide != 0 ? kSide : x.shape.inner;  // rows, inner and cols are equal
    const BlocksAhead ahead(x, side * side * sizeof(std::uint16_t));
    const bool is_first = first_row == 0 && first_col == 0;
    Patch low[kRows / 2][kQuads] = {};
    [[maybe_unused]] Patch middle[kRows / 2][kQuads] = {};
    [[maybe_unused]] Patch high[kRows / 2][kQuads] = {};
    for (std::uint32_t p = 0; p < count; ++p) {
      if (is_first) ahead.fetch(pairs + p);
      const std::uint16_t* const a = x.a + pairs[p].a * side * side + first_row * side;
      const std::uint16_t* const b = x.b + pairs[p].b * side * side + first_col * side;
      for (std::size_t k = 0; k < side; k += kDepth) {
        Digits rows[kRows / 2];
        for (std::size_t r = 0; r < kRows / 2; ++r) {
          rows[r] = split<kWide>(a + 2 * r * side + k, a + (2 * r + 1) * side + k);
        }
        for (std::size_t q = 0; q < kQuads; ++q) {
          const BothColumns columns = load_columns<kWide>(b + 4 * q * side + k, side);
          for (std::size_t r = 0; r < kRows / 2; ++r) {
            if constexpr (kWide) {
              add_digits(low[r][q], middle[r][q], high[r][q], rows[r], columns);
            } else {
              low[r][q].add(rows[r].low, columns.low);
            }
          }
        }
      }
    }
    for (std::size_t r = 0; r < kRows / 2; ++r) {
      for (std::size_t q = 0; q < kQuads; ++q) {
        Patch sums = low[r][q];
        for (std::size_t part = 0; kWide && part < 2; ++part) {
          sums.parts[part] = join_digits(sums.parts[part], middle[r][q].parts[part], high[r][q].parts[part]);
        }
        vst1q_u32(out + 2 * r * side + 4 * q, sums.upper());
        vst1q_u32(out + (2 * r + 1) * side + 4 * q, sums.lower());
      }
    }
  }

  template <bool kWide, std::uint32_t kM>
  static void run(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count, std::uint32_t* out) {
    const std::uint32_t m = kM != 0 ? kM : x.shape.m;
    const std::uint32_t side = kSide != 0 ? kSide : x.shape.inner;
    constexpr std::uint32_t kStripRows = kWide ? 4 : 8;
    constexpr std::uint32_t kStripCols = kWide ? 4 : 8;
    for (std::uint32_t row = 0; row < m; row += kStripRows) {
      const std::uint32_t left = m - row;
      for (std::uint32_t col = 0; col < side; col += kStripCols) {
        std::uint32_t* const to = out + row * side + col;
        if (!kWide && left > 4) {
          run_strip<kWide, kStripRows>(x, pairs, count, row, col, to);
        } else if (left > 2) {
          run_strip<kWide, 4>(x, pairs, count, row, col, to);
        } else {
          run_strip<kWide, 2>(x, pairs, count, row, col, to);
        }
      }
    }
  }

  template <bool kWide, std::uint32_t kM>
  requires(kM != 0 && kM == kSide) static bool run_and_store(const PackedBlocks& x, const PairRef* pairs,
                                                             std::uint32_t count, std::byte* out) {
    return run_into_record<Strips, kWide>(x, pairs, count, out);
  }
};

inline MultiplyCBlocks pick_digit_kernel(const PackedShape& shape, const Arithmetic& arithmetic) {
  switch (shape.m) {
    case 4:
      return for_arithmetic<Side4, 4>(arithmetic);
    case 5:
      return for_arithmetic<Strips<8>, 5>(arithmetic);
    case 6:
      return for_arithmetic<Strips<8>, 6>(arithmetic);
    case 7:
      return for_arithmetic<Strips<8>, 7>(arithmetic);
    case 8:
      return for_arithmetic<Strips<8>, 8>(arithmetic);
    case 16:
      return for_arithmetic<Strips<16>, 16>(arithmetic);
    default:
      return for_arithmetic<Strips<0>, 0>(arithmetic);
  }
}

}  // namespace
}  // namespace spmm::cpu
