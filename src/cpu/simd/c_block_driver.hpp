// Shared by the SIMD kernels: from the clamped sums of runs of pairs to records.
// Included once per kernel file, inside its region for an instruction set: everything here is internal to that file.
#pragma once

namespace spmm::cpu {
namespace {

/// Merges two clamped sums, in what becomes vectors.
inline std::uint32_t add_clamped(std::uint32_t x, std::uint32_t y) {
  const std::uint32_t sum = x + y;
  return sum < x ? kMaxVal : sum;
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
  constexpr std::uint32_t kLanes = 8;  // cols is a multiple of it, and m more than half of cols
  const std::size_t row_bytes = m * kBytes;
  for (std::uint32_t r = 0; r + 1 < m; ++r, out += row_bytes) {
    for (std::uint32_t c = 0; c < cols; c += kLanes) {
      std::memcpy(out + c * kBytes, values + std::size_t{r} * cols + c, kLanes * kBytes);
    }
  }
  std::memcpy(out, values + std::size_t{m - 1} * cols, row_bytes);
  return any_value(values, m * cols);
}

/// Computes one C block with Kernel::run, which gives the clamped sums of at most flush_pairs pairs. No term is
/// negative, so clamped sums of several runs add up to the clamped sum of all.
/// Kernel: kSide = the padded columns if constant, else 0; kMaxRows, kMaxCols; kRunPairs = pairs of a run at most.
/// Values: kM = m if kSide is a constant, else 0.
template <class Kernel, bool kWide, std::uint32_t kM>
inline bool multiply_c_block(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count, std::byte* out) {
  constexpr std::uint32_t kSide = Kernel::kSide;
  const std::uint32_t m = kM != 0 ? kM : x.shape.m;
  const std::uint32_t cols = kSide != 0 ? kSide : x.shape.cols;
  const std::uint32_t run_pairs = std::min(x.arithmetic.flush_pairs, Kernel::kRunPairs);
  alignas(64) std::array<std::uint32_t, Kernel::kMaxRows * Kernel::kMaxCols> sums;
  Kernel::template run<kWide, kM>(x, pairs, std::min(run_pairs, count), sums.data());
  if (count > run_pairs) {
    alignas(64) std::array<std::uint32_t, Kernel::kMaxRows * Kernel::kMaxCols> more;
    for (std::uint32_t p = run_pairs; p < count; p += run_pairs) {
      Kernel::template run<kWide, kM>(x, pairs + p, std::min(run_pairs, count - p), more.data());
      for (std::uint32_t e = 0; e < m * cols; ++e) sums[e] = add_clamped(sums[e], more[e]);
    }
  }
  return store_block<kM, kSide>(sums.data(), m, cols, out);
}

constexpr std::uint64_t kRecordsAhead = 4;

/// Fetches the lines of a record that is written soon: stores wait for theirs one after the other. A ninth of P3; side
/// 4 and 6 gain nothing.
inline void fetch_record(std::byte* record, std::uint64_t bytes) {
  constexpr std::uint64_t kLineBytes = 64;
  for (std::uint64_t at = 0; at < bytes; at += kLineBytes) __builtin_prefetch(record + at, 1);
}

/// A MultiplyCBlocks made of Kernel. Where that has run_and_store(), sums of one run go straight into a record, and
/// nothing is called for each C block.
template <class Kernel, bool kWide, std::uint32_t kM>
std::byte* multiply_c_blocks(const PackedBlocks& x, const CBlockList& list, std::byte* out) {
  const std::uint64_t record = output_record_bytes(kM != 0 ? kM : x.shape.m);
  [[maybe_unused]] const std::uint32_t run_pairs = std::min(x.arithmetic.flush_pairs, Kernel::kRunPairs);
  std::uint32_t begin = list.begin;
  for (const CBlock& c_block : list.c_blocks) {
    const std::uint32_t count = c_block.end - begin;
    const PairRef* const pairs = list.pairs + begin;
    if constexpr (kM >= 7) fetch_record(out + kRecordsAhead * record, record);
    bool any = false;
    if constexpr (requires { Kernel::template run_and_store<kWide, kM>(x, pairs, count, out); }) {
      any = count <= run_pairs ? Kernel::template run_and_store<kWide, kM>(x, pairs, count, out + kIndexBytes)
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

/// The kernel that a packed shape needs: for every side from 4 to 16 one of its own, so that padding is not stored and
/// pairs of rows that are padding are not multiplied.
template <class Side4, class Side6, class Side8, template <std::uint32_t> class Strips>
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
    case 9:
      return for_arithmetic<Strips<16>, 9>(arithmetic);
    case 10:
      return for_arithmetic<Strips<16>, 10>(arithmetic);
    case 11:
      return for_arithmetic<Strips<16>, 11>(arithmetic);
    case 12:
      return for_arithmetic<Strips<16>, 12>(arithmetic);
    case 13:
      return for_arithmetic<Strips<16>, 13>(arithmetic);
    case 14:
      return for_arithmetic<Strips<16>, 14>(arithmetic);
    case 15:
      return for_arithmetic<Strips<16>, 15>(arithmetic);
    case 16:
      return for_arithmetic<Strips<16>, 16>(arithmetic);
    default:
      return for_arithmetic<Strips<0>, 0>(arithmetic);
  }
}

/// Fetches blocks of B of pairs that come soon, or the beginning of large ones: fewer pairs ahead if blocks are large,
/// so that they stay in the first-level cache.
struct BlocksAhead {
  static constexpr std::uint64_t kMostBytes = 1024;

  BlocksAhead(const PackedBlocks& x, std::uint64_t block_bytes)
      : b(reinterpret_cast<const char*>(x.b)),
        bytes(block_bytes),
        fetched(std::min(block_bytes, kMostBytes)),
        pairs(std::clamp<std::uint64_t>(6 * kMostBytes / block_bytes, 1, kPairsAhead)) {}

  /// Inlined by order: a function that only fetches is dropped as one without effect.
  [[gnu::always_inline]] void fetch(const PairRef* pair) const {
    constexpr std::uint64_t kLineBytes = 64;
    const char* const block = b + pair[pairs].b * bytes;
    for (std::uint64_t at = 0; at < fetched; at += kLineBytes) __builtin_prefetch(block + at);
  }

  const char* b;
  std::uint64_t bytes;
  std::uint64_t fetched;
  std::uint64_t pairs;
};

/// 2^7 times the sum over the pairs of a run of the row sums of A's blocks, as join_digits() wants it.
/// Shapes: out [rows].
inline void sum_rows(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count, std::uint32_t rows,
                     std::uint32_t* out) {
  std::fill_n(out, rows, 0);
  for (std::uint32_t p = 0; p < count; ++p) {
    const std::uint32_t* row_sums = x.a_row_sums + std::size_t{pairs[p].a} * rows;
    for (std::uint32_t r = 0; r < rows; ++r) out[r] += row_sums[r] << 7;
  }
}

}  // namespace
}  // namespace spmm::cpu
