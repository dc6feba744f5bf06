// Sums of rows of C on byte digits: what neon and i8mm share. The file defines Patch and Columns before (patch.hpp).
// Included within the region for the instruction set of a file: everything here is internal to that file.
#pragma once

namespace spmm::cpu {
namespace {

constexpr std::size_t kHeadBytes = sizeof(BlockIndex);

/// How sums grow: as AccumulatorKernel has it.
enum class Sums { plain, clamped, wide };

template <std::size_t kElements>
inline void fetch_block(const std::uint16_t* block) {
  constexpr std::size_t kLineElements = 32;
  for (std::size_t e = 0; e < kElements; e += kLineElements) __builtin_prefetch(block + e);
}

/// Side 4: a register per row.
struct Rows4 {
  static constexpr std::size_t kElements = 16;

  template <Sums kSums>
  static std::uint32_t add(const AddRun& run, std::uint32_t first_col, std::uint32_t end_col, std::uint32_t* sums) {
    constexpr bool kWide = kSums == Sums::wide;
    const Digits a = split<kWide>(run.a, run.a + 8);
    std::uint32_t x = 0;
    for (; x < run.count && run.cols[x] < end_col; ++x) {
      fetch_block<kElements>(run.ahead + x * kElements);
      std::uint32_t* const at = sums + (run.cols[x] - first_col) * kElements;
      const Digits b = split<kWide>(run.b + x * kElements, run.b + x * kElements + 8);
      Sums4 low{};
      Sums4 middle{};
      Sums4 high{};
      if constexpr (kSums == Sums::plain) {
        for (std::size_t r = 0; r < 4; ++r) low.rows[r] = vld1q_u32(at + 4 * r);
      }
      if constexpr (kWide) {
        add_digits(low, middle, high, a, b);
      } else {
        low.add(a.low, b.low);
      }
      for (std::size_t r = 0; r < 4; ++r) {
        const uint32x4_t row = kWide ? join_digits(low.rows[r], middle.rows[r], high.rows[r]) : low.rows[r];
        vst1q_u32(at + 4 * r, kSums == Sums::plain ? row : vqaddq_u32(vld1q_u32(at + 4 * r), row));
      }
    }
    return x;
  }

  static std::byte* store(std::uint32_t row, std::uint32_t first_col, std::uint32_t count, std::uint32_t* sums,
                          std::byte* out) {
    for (std::uint32_t x = 0; x < count; ++x, sums += kElements) {
      const BlockIndex at{.i = row, .j = first_col + x};  // overwritten by the next record unless a sum is not zero
      std::memcpy(out, &at, kHeadBytes);
      uint32x4_t any = vdupq_n_u32(0);
      for (std::size_t e = 0; e < kElements; e += 4) {
        const uint32x4_t values = vld1q_u32(sums + e);
        any = vorrq_u32(any, values);
        vst1q_u8(reinterpret_cast<std::uint8_t*>(out + kHeadBytes + e * sizeof *sums), vreinterpretq_u8_u32(values));
        vst1q_u32(sums + e, vdupq_n_u32(0));
      }
      out += vmaxvq_u32(any) != 0 ? kHeadBytes + kElements * sizeof *sums : 0;
    }
    return out;
  }
};

/// Sides 5 to 8 in blocks padded to 8. The sums of a block lie patch by patch.
template <std::size_t kSide>
struct Rows8 {
  static constexpr std::size_t kElements = 64;
  static constexpr std::size_t kRowPairs = (kSide + 1) / 2;
  static constexpr std::size_t kSumElements = kRowPairs * 16;

  struct BothColumns {
    Columns low;
    Columns high;
  };

  /// Adds the products of two rows of A with four columns of B. Shapes: at [2, 4].
  template <Sums kSums>
  static void add_patch(const Digits& a, const BothColumns& b, std::uint32_t* at) {
    Patch low{};
    if constexpr (kSums == Sums::plain) low = {{vld1q_u32(at), vld1q_u32(at + 4)}};
    [[maybe_unused]] Patch middle{};
    [[maybe_unused]] Patch high{};
    if constexpr (kSums == Sums::wide) {
      add_digits(low, middle, high, a, b);
    } else {
      low.add(a.low, b.low);
    }
    for (std::size_t part = 0; part < 2; ++part) {
      uint32x4_t sum = low.parts[part];
      if constexpr (kSums == Sums::wide) sum = join_digits(sum, middle.parts[part], high.parts[part]);
      vst1q_u32(at + 4 * part, kSums == Sums::plain ? sum : vqaddq_u32(vld1q_u32(at + 4 * part), sum));
    }
  }

  template <Sums kSums>
  static std::uint32_t add(const AddRun& run, std::uint32_t first_col, std::uint32_t end_col, std::uint32_t* sums) {
    constexpr bool kWide = kSums == Sums::wide;
    Digits a[kRowPairs];
    for (std::size_t r = 0; r < kRowPairs; ++r) a[r] = split<kWide>(run.a + 16 * r, run.a + 16 * r + 8);
    std::uint32_t x = 0;
    for (; x < run.count && run.cols[x] < end_col; ++x) {
      fetch_block<kElements>(run.ahead + x * kElements);
      std::uint32_t* const at = sums + (run.cols[x] - first_col) * kSumElements;
      for (std::size_t q = 0; q < 2; ++q) {
        const std::uint16_t* const b = run.b + x * kElements + 32 * q;
        const Digits left = split<kWide>(b, b + 8);
        const Digits right = split<kWide>(b + 16, b + 24);
        const BothColumns columns{.low = columns_of(left.low, right.low), .high = columns_of(left.high, right.high)};
        for (std::size_t r = 0; r < kRowPairs; ++r) add_patch<kSums>(a[r], columns, at + 16 * r + 8 * q);
      }
    }
    return x;
  }

  /// Rows of sums without their padding, which the next row overwrites.
  static std::byte* store(std::uint32_t row, std::uint32_t first_col, std::uint32_t count, std::uint32_t* sums,
                          std::byte* out) {
    constexpr std::size_t kRowBytes = kSide * sizeof(std::uint32_t);
    for (std::uint32_t x = 0; x < count; ++x, sums += kSumElements) {
      const BlockIndex at{.i = row, .j = first_col + x};  // overwritten by the next record unless a sum is not zero
      std::memcpy(out, &at, kHeadBytes);
      uint32x4_t any = vdupq_n_u32(0);
      for (std::size_t r = 0; r < kSide; ++r) {
        uint32x4_t values[2];
        for (std::size_t q = 0; q < 2; ++q) {
          const std::uint32_t* const from = sums + 16 * (r / 2) + 8 * q;
          const Patch patch{{vld1q_u32(from), vld1q_u32(from + 4)}};
          values[q] = r % 2 == 0 ? patch.upper() : patch.lower();
          any = vorrq_u32(any, values[q]);
        }
        std::memcpy(out + kHeadBytes + r * kRowBytes, values, r + 1 < kSide ? sizeof values : kRowBytes);
      }
      std::memset(sums, 0, kSumElements * sizeof *sums);
      out += vmaxvq_u32(any) != 0 ? kHeadBytes + kSide * kRowBytes : 0;
    }
    return out;
  }
};

template <class Rows>
AccumulatorKernel accumulator_of(Isa isa, std::uint32_t m, std::size_t sum_elements, std::uint32_t sums_bytes) {
  return {.sum_elements = static_cast<std::uint32_t>(sum_elements),
          .sums_bytes = sums_bytes,
          .least_pairs = plan::least_summed_pairs(isa, m),
          .add = Rows::template add<Sums::plain>,
          .add_clamped = Rows::template add<Sums::clamped>,
          .add_wide = Rows::template add<Sums::wide>,
          .store = Rows::store};
}

template <std::size_t kSide>
AccumulatorKernel rows8_of(Isa isa) {
  return accumulator_of<Rows8<kSide>>(isa, kSide, Rows8<kSide>::kSumElements, kSumsBytes);
}

inline AccumulatorKernel pick_accumulator(Isa isa, std::uint32_t m) {
  switch (m) {
    case 4:
      return accumulator_of<Rows4>(isa, m, Rows4::kElements, kSide4SumsBytes);
    case 5:
      return rows8_of<5>(isa);
    case 6:
      return rows8_of<6>(isa);
    case 7:
      return rows8_of<7>(isa);
    case 8:
      return rows8_of<8>(isa);
    default:
      return {};
  }
}

}  // namespace
}  // namespace spmm::cpu
