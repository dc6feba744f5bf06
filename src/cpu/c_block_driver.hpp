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

/// Clamps exact sums. Shapes: sums, out [count].
inline void saturate_all(const std::uint64_t* sums, std::uint32_t* out, std::uint32_t count) {
  for (std::uint32_t e = 0; e < count; ++e) out[e] = saturate(sums[e]);
}

/// Whether a value is not zero.
inline bool any_value(const std::uint32_t* values, std::uint32_t count) {
  std::uint32_t any = 0;
  for (std::uint32_t e = 0; e < count; ++e) any |= values[e];
  return any != 0;
}

/// Copies the values of a block into its record, without padding; returns whether one is not zero.
/// Shapes: values [rows, cols], padded with zeros; out [m, m] u32, unaligned.
/// Values: kM = m where it is known when compiling, else 0; kCols = cols likewise.
template <std::uint32_t kM, std::uint32_t kCols>
inline bool store_block(const std::uint32_t* values, std::uint32_t side, std::uint32_t stride, std::byte* out) {
  constexpr std::size_t kBytes = sizeof(std::uint32_t);
  const std::uint32_t m = kM != 0 ? kM : side;
  const std::uint32_t cols = kM != 0 ? kCols : stride;
  if constexpr (kM != 0 && kM == kCols) {
    std::uint32_t any = 0;
    for (std::uint32_t e = 0; e < kM * kM; ++e) {
      any |= values[e];
      std::memcpy(out + e * kBytes, &values[e], kBytes);
    }
    return any != 0;
  } else if constexpr (kM != 0) {
    static_assert(2 * kM >= kCols, "what is copied past a row lies within the next one");
    for (std::uint32_t r = 0; r + 1 < kM; ++r) {  // whole registers: the next row overwrites the padding
      std::memcpy(out + r * kM * kBytes, values + r * kCols, kCols * kBytes);
    }
    std::memcpy(out + (kM - 1) * kM * kBytes, values + (kM - 1) * kCols, kM * kBytes);
    return any_value(values, kM * kCols);
  }
  bool any = false;
  for (std::uint32_t r = 0; r < m; ++r) {
    std::memcpy(out + std::size_t{r} * m * kBytes, values + std::size_t{r} * cols, m * kBytes);
    any |= any_value(values + std::size_t{r} * cols, m);
  }
  return any;
}

/// Computes one C block with Kernel::run, which fills a Partial from at most flush_pairs pairs.
/// Kernel: kSide = the padded side if it is a constant, else 0; kMaxRows, kMaxCols; kRunPairs = pairs of a run at most.
/// Values: kM = m where the padded side is a constant, else 0.
template <class Kernel, bool kWide, std::uint32_t kM>
inline bool multiply_c_block(const Operands& x, const PairRef* pairs, std::uint32_t count, std::byte* out) {
  constexpr std::uint32_t kSide = Kernel::kSide;
  const std::uint32_t m = kM != 0 ? kM : x.shape.m;
  const std::uint32_t rows = kM != 0 ? kM : x.shape.rows;  // further ones are padding
  const std::uint32_t cols = kSide != 0 ? kSide : x.shape.cols;
  const std::uint32_t run_pairs = std::min(x.arithmetic.flush_pairs, Kernel::kRunPairs);
  Partial<Kernel::kMaxRows, Kernel::kMaxCols> partial;
  if (!kWide && count <= run_pairs) {
    Kernel::template run<kWide, kM>(x, pairs, count, partial);
    return store_block<kM, kSide>(partial.low.data(), m, cols, out);
  }
  alignas(64) std::array<std::uint64_t, Kernel::kMaxRows * Kernel::kMaxCols> sums;
  const auto fold = [&]<bool kFirst>(std::bool_constant<kFirst>) {
    for (std::uint32_t r = 0; r < rows; ++r) {
      fold_row<kWide, kFirst>(sums.data() + r * cols, partial.low.data() + r * cols, partial.high.data() + r * cols,
                              kWide ? partial.row_sums[r] : 0, cols);
    }
  };
  Kernel::template run<kWide, kM>(x, pairs, std::min(run_pairs, count), partial);
  fold(std::true_type{});
  for (std::uint32_t p = run_pairs; p < count; p += run_pairs) {
    Kernel::template run<kWide, kM>(x, pairs + p, std::min(run_pairs, count - p), partial);
    fold(std::false_type{});
  }
  saturate_all(sums.data(), partial.low.data(), rows * cols);
  return store_block<kM, kSide>(partial.low.data(), m, cols, out);
}

constexpr std::uint64_t kRecordsAhead = 4;

/// Fetches the lines of a record that is written soon: stores wait for theirs one after the other. A ninth of P3; side
/// 4 and 6 gain nothing.
inline void fetch_record(std::byte* record, std::uint64_t bytes) {
  constexpr std::uint64_t kLineBytes = 64;
  for (std::uint64_t at = 0; at < bytes; at += kLineBytes) __builtin_prefetch(record + at, 1);
}

/// A MultiplyCBlocks made of Kernel. Where that has run_and_store(), narrow sums of one run go straight into a record,
/// and nothing is called for each C block.
template <class Kernel, bool kWide, std::uint32_t kM>
std::byte* multiply_c_blocks(const Operands& x, const CBlockList& list, std::byte* out) {
  const std::uint64_t record = output_record_bytes(kM != 0 ? kM : x.shape.m);
  [[maybe_unused]] const std::uint32_t run_pairs = std::min(x.arithmetic.flush_pairs, Kernel::kRunPairs);
  std::uint32_t begin = list.begin;
  for (const CBlock& c_block : list.c_blocks) {
    const std::uint32_t count = c_block.end - begin;
    const PairRef* const pairs = list.pairs + begin;
    if constexpr (kM >= 7) fetch_record(out + kRecordsAhead * record, record);
    bool any = false;
    if constexpr (!kWide && requires { Kernel::template run_and_store<kM>(x, pairs, count, out); }) {
      any = count <= run_pairs ? Kernel::template run_and_store<kM>(x, pairs, count, out + kIndexBytes)
                               : multiply_c_block<Kernel, kWide, kM>(x, pairs, count, out + kIndexBytes);
    } else {
      any = multiply_c_block<Kernel, kWide, kM>(x, pairs, count, out + kIndexBytes);
    }
    begin = c_block.end;
    if (!any) continue;
    const BlockIndex at{.i = list.row, .j = c_block.col};
    std::memcpy(out, &at, kIndexBytes);
    out += record;
  }
  return out;
}

template <class Kernel, std::uint32_t kM>
MultiplyCBlocks for_arithmetic(const Arithmetic& arithmetic) {
  return arithmetic.wide ? multiply_c_blocks<Kernel, true, kM> : multiply_c_blocks<Kernel, false, kM>;
}

/// The kernel that a packed shape needs: for every side from 4 to 8 one of its own, so that padding is not stored and
/// pairs of rows that are padding are not multiplied.
template <class Side4, class Side6, class Side8, class Strips>
MultiplyCBlocks pick_kernel(const PackedShape& shape, const Arithmetic& arithmetic) {
  switch (shape.m) {
    case 4:
      return for_arithmetic<Side4, 4>(arithmetic);
    case 5:
      return for_arithmetic<Side6, 5>(arithmetic);
    case 6:
      return for_arithmetic<Side6, 6>(arithmetic);
    case 7:
      return for_arithmetic<Side8, 7>(arithmetic);
    case 8:
      return for_arithmetic<Side8, 8>(arithmetic);
    default:
      return for_arithmetic<Strips, 0>(arithmetic);
  }
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
