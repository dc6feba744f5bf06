// Shared by the SIMD kernels: from the 32-bit sums of a run of pairs to saturated records.
// Included once per kernel file, inside its region for an instruction set: everything here is internal to that file.
#pragma once

namespace spmm::cpu {
namespace {

/// Sums of one run of at most flush_pairs pairs, as a kernel leaves them.
/// Shapes: low, high [rows, cols], row_sums [rows]. Values: narrow arithmetic uses low alone.
template <std::uint32_t kMaxRows, std::uint32_t kMaxCols>
struct Partial {
  alignas(64) std::array<std::uint32_t, kMaxRows * kMaxCols> low;
  alignas(64) std::array<std::uint32_t, kMaxRows * kMaxCols> high;
  alignas(64) std::array<std::uint32_t, kMaxRows> row_sums;
};

/// Adds one row of a run to exact sums, or starts them with it. Shapes: sums, low, high [count].
template <bool kWide, bool kFirst>
inline void fold_row(std::uint64_t* sums, const std::uint32_t* low, const std::uint32_t* high, std::uint64_t row_sum,
                     std::uint32_t count) {
  for (std::uint32_t c = 0; c < count; ++c) {
    std::uint64_t sum = low[c];
    if constexpr (kWide) {
      const std::int64_t low_sum = static_cast<std::int32_t>(low[c]);
      const std::int64_t high_sum = static_cast<std::int32_t>(high[c]);
      sum = static_cast<std::uint64_t>(low_sum + high_sum * 256) + (row_sum << 15);
    }
    sums[c] = kFirst ? sum : sums[c] + sum;
  }
}

/// Writes saturated values; returns whether one is not zero. Shapes: sums [count], out [count] u32, unaligned.
inline bool store_saturated(const std::uint64_t* sums, std::byte* out, std::uint32_t count) {
  std::uint64_t any = 0;
  for (std::uint32_t e = 0; e < count; ++e) {
    any |= sums[e];
    const std::uint32_t value = saturate(sums[e]);
    std::memcpy(out + std::size_t{e} * sizeof value, &value, sizeof value);
  }
  return any != 0;
}

/// Copies values that need no clamping; returns whether one is not zero.
inline bool store_plain(const std::uint32_t* values, std::byte* out, std::uint32_t count) {
  std::uint32_t any = 0;
  for (std::uint32_t e = 0; e < count; ++e) {
    any |= values[e];
    std::memcpy(out + std::size_t{e} * sizeof any, &values[e], sizeof any);
  }
  return any != 0;
}

/// Computes one C block with Kernel::run, which fills a Partial from at most flush_pairs pairs.
/// Kernel: kSide = the padded side if it is a constant, else 0; kMaxRows, kMaxCols; kRunPairs = pairs of a run at most.
template <class Kernel, bool kWide>
inline bool multiply_c_block(const Operands& x, const PairRef* pairs, std::uint32_t count, std::byte* out) {
  constexpr std::uint32_t kSide = Kernel::kSide;
  const std::uint32_t m = x.shape.m;
  const std::uint32_t rows = kSide != 0 ? kSide : x.shape.rows;
  const std::uint32_t cols = kSide != 0 ? kSide : x.shape.cols;
  const std::uint32_t run_pairs = std::min(x.arithmetic.flush_pairs, Kernel::kRunPairs);
  Partial<Kernel::kMaxRows, Kernel::kMaxCols> partial;
  if (!kWide && count <= run_pairs) {
    Kernel::template run<kWide>(x, pairs, count, partial);
    if (kSide != 0 && m == kSide) return store_plain(partial.low.data(), out, kSide * kSide);
    bool any = false;
    for (std::uint32_t r = 0; r < m; ++r) {
      any |= store_plain(partial.low.data() + r * cols, out + std::size_t{r} * m * sizeof(std::uint32_t), m);
    }
    return any;
  }
  alignas(64) std::array<std::uint64_t, Kernel::kMaxRows * Kernel::kMaxCols> sums;
  const auto fold = [&]<bool kFirst>(std::bool_constant<kFirst>) {
    for (std::uint32_t r = 0; r < rows; ++r) {
      fold_row<kWide, kFirst>(sums.data() + r * cols, partial.low.data() + r * cols, partial.high.data() + r * cols,
                              kWide ? partial.row_sums[r] : 0, cols);
    }
  };
  Kernel::template run<kWide>(x, pairs, std::min(run_pairs, count), partial);
  fold(std::true_type{});
  for (std::uint32_t p = run_pairs; p < count; p += run_pairs) {
    Kernel::template run<kWide>(x, pairs + p, std::min(run_pairs, count - p), partial);
    fold(std::false_type{});
  }
  if (kSide != 0 && m == kSide) return store_saturated(sums.data(), out, kSide * kSide);
  bool any = false;
  for (std::uint32_t r = 0; r < m; ++r) {
    any |= store_saturated(sums.data() + r * cols, out + std::size_t{r} * m * sizeof(std::uint32_t), m);
  }
  return any;
}

/// A MultiplyCBlocks made of Kernel.
template <class Kernel, bool kWide>
std::byte* multiply_c_blocks(const Operands& x, const CBlockList& list, std::byte* out) {
  const std::uint64_t record = output_record_bytes(x.shape.m);
  std::uint32_t begin = list.begin;
  for (const CBlock& c_block : list.c_blocks) {
    const bool any = multiply_c_block<Kernel, kWide>(x, list.pairs + begin, c_block.end - begin, out + kIndexBytes);
    begin = c_block.end;
    if (!any) continue;
    const BlockIndex at{.i = list.row, .j = c_block.col};
    std::memcpy(out, &at, kIndexBytes);
    out += record;
  }
  return out;
}

template <class Kernel>
MultiplyCBlocks for_arithmetic(const Arithmetic& arithmetic) {
  return arithmetic.wide ? multiply_c_blocks<Kernel, true> : multiply_c_blocks<Kernel, false>;
}

/// The one of three kernels that a packed shape needs.
template <class Side4, class Side8, class Strips>
MultiplyCBlocks pick_kernel(const PackedShape& shape, const Arithmetic& arithmetic) {
  if (shape.cols == Side4::kSide) return for_arithmetic<Side4>(arithmetic);
  if (shape.cols == Side8::kSide) return for_arithmetic<Side8>(arithmetic);
  return for_arithmetic<Strips>(arithmetic);
}

/// Sum over the pairs of a run of the row sums of A's blocks. Shapes: out [rows].
inline void sum_rows(const Operands& x, const PairRef* pairs, std::uint32_t count, std::uint32_t rows,
                     std::uint32_t* out) {
  std::fill_n(out, rows, 0);
  for (std::uint32_t p = 0; p < count; ++p) {
    const std::uint32_t* row_sums = x.a_row_sums + std::size_t{pairs[p].a} * rows;
    for (std::uint32_t r = 0; r < rows; ++r) out[r] += row_sums[r];
  }
}

}  // namespace
}  // namespace spmm::cpu
