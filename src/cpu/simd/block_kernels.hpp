// The kernels for blocks of side 4 and more, written over the registers of an instruction set: include avx2.hpp or
// avx512.hpp before. Everything here is internal to the file that includes it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cpu/simd/kernels.hpp"
#include "cpu/simd/layout.hpp"
#include "spmm/saturate.hpp"
#include "spmm/types.hpp"

SPMM_ISA_BEGIN
namespace spmm::cpu {
namespace {

using Register = Vectors::Register;

constexpr std::size_t kLineBytes = 64;

/// Copies the values of a block into its record, without padding. Shapes: values [m, cols], out [m, m] u32, unaligned.
inline void store_block(const std::uint32_t* values, std::uint32_t m, std::uint32_t cols, std::byte* out) {
  constexpr std::uint32_t kStep = 8;  // divides cols; what is copied past a row lies within the next one
  const std::size_t row_bytes = m * sizeof *values;
  for (std::uint32_t r = 0; r + 1 < m; ++r, out += row_bytes) {
    for (std::uint32_t c = 0; c < m; c += kStep) {
      std::memcpy(out + c * sizeof *values, values + std::size_t{r} * cols + c, kStep * sizeof *values);
    }
  }
  std::memcpy(out, values + std::size_t{m - 1} * cols, row_bytes);
}

/// Sides 4 to 8, padded to 4 or 8: the sums of a block lie in registers, four columns of a row in each quarter.
template <std::uint32_t kBlockSide>
struct SmallBlocks {
  static constexpr std::uint32_t kM = kBlockSide;
  static constexpr std::uint32_t kSide = kM <= 4 ? 4 : 8;
  static constexpr std::size_t kElements = std::size_t{kSide} * kSide;  // of a packed block
  static constexpr std::uint32_t kRowGroups = (kM + Vectors::kQuarters - 1) / Vectors::kQuarters;
  static constexpr std::uint32_t kColGroups = kSide / 4;
  static constexpr std::uint32_t kSteps = (kM + 1) / 2;  // pairs of rows of B
  static constexpr std::size_t kSumElements = std::size_t{kRowGroups} * kColGroups * Vectors::kLanes;

  struct Sums {
    Register of[kRowGroups][kColGroups];
  };

  static Register rows_of_a(const std::uint16_t* a, std::uint32_t group) {
    const std::uint16_t* const rows = a + std::size_t{group} * Vectors::kQuarters * kSide;
    return kSide == 4 ? Vectors::rows_of_4(rows) : Vectors::load(rows);
  }

  /// Four columns of rows 2 * step and 2 * step + 1 of B, for every row of the sums.
  template <bool kWide>
  static Register columns_of_b(const std::uint16_t* b, std::uint32_t step, std::uint32_t col_group) {
    const Register columns = Vectors::repeat(b + std::size_t{step} * 2 * kSide + std::size_t{col_group} * 8);
    return kWide ? Vectors::offset(columns) : columns;
  }

  /// Adds elements 2T, 2T + 1 of every row of A times rows 2T, 2T + 1 of B, and those after them.
  template <bool kWide, std::uint32_t kStep = 0>
  [[gnu::always_inline]] static void add_steps(const Register* rows, const std::uint16_t* b, Sums& low, Sums& high) {
    for (std::uint32_t c = 0; c < kColGroups; ++c) {
      const Register columns = columns_of_b<kWide>(b, kStep, c);
      for (std::uint32_t g = 0; g < kRowGroups; ++g) {
        const Register both = Vectors::pick<kStep>(rows[g]);
        if constexpr (kWide) {
          low.of[g][c] = Vectors::add_products(low.of[g][c], Vectors::low_bytes(both), columns);
          high.of[g][c] = Vectors::add_products(high.of[g][c], Vectors::high_bytes(both), columns);
        } else {
          low.of[g][c] = Vectors::add_products(low.of[g][c], both, columns);
        }
      }
    }
    if constexpr (kStep + 1 < kSteps) add_steps<kWide, kStep + 1>(rows, b, low, high);
  }

  /// Sums of at most flush_pairs pairs. Inlined by order, as c_block(): a call for each C block loads all constants
  /// anew, and where those have one or two pairs that is up to 8 % of multiply.
  template <bool kWide>
  [[gnu::always_inline]] static Sums sum_run(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count) {
    Sums low;
    Sums high;
    for (std::uint32_t g = 0; g < kRowGroups; ++g) {
      for (std::uint32_t c = 0; c < kColGroups; ++c) low.of[g][c] = high.of[g][c] = Vectors::zero();
    }
    std::uint32_t row_sums[kSide] = {};
    for (std::uint32_t p = 0; p < count; ++p) {
      const auto* const ahead = reinterpret_cast<const char*>(x.b + pairs[p + kPairsAhead].b * kElements);
      for (std::size_t at = 0; at < kElements * sizeof(std::uint16_t); at += kLineBytes) __builtin_prefetch(ahead + at);
      const std::uint16_t* const a = x.a + pairs[p].a * kElements;
      Register rows[kRowGroups];
      for (std::uint32_t g = 0; g < kRowGroups; ++g) rows[g] = rows_of_a(a, g);
      add_steps<kWide>(rows, x.b + pairs[p].b * kElements, low, high);
      if constexpr (kWide) {
        const std::uint32_t* const of_block = x.a_row_sums + std::size_t{pairs[p].a} * kSide;
        for (std::uint32_t r = 0; r < kSide; ++r) row_sums[r] += of_block[r] << 7;
      }
    }
    if constexpr (kWide) {
      for (std::uint32_t g = 0; g < kRowGroups; ++g) {
        const Register of_rows = Vectors::repeat_each(row_sums + g * Vectors::kQuarters);
        for (std::uint32_t c = 0; c < kColGroups; ++c) {
          low.of[g][c] = Vectors::join_digits(low.of[g][c], high.of[g][c], of_rows);
        }
      }
    }
    return low;
  }

  /// Writes the elements of a record; returns whether one is not zero.
  [[gnu::always_inline]] static bool store(const Sums& sums, std::byte* out) {
    alignas(64) std::uint32_t padded[kM == kSide ? 1 : kElements];
    std::byte* const to = kM == kSide ? out : reinterpret_cast<std::byte*>(padded);
    constexpr std::size_t kRegisterBytes = sizeof(Register);
    Register any = Vectors::zero();
    for (std::uint32_t g = 0; g < kRowGroups; ++g) {
      const Register* const of = sums.of[g];
      any = Vectors::bits_of_both(any, Vectors::bits_of_both(of[0], of[kColGroups - 1]));
      if constexpr (kColGroups == 1) {
        Vectors::store(to + g * kRegisterBytes, of[0]);
      } else {
        Vectors::store(to + std::size_t{2} * g * kRegisterBytes, Vectors::zip_lower(of[0], of[1]));
        Vectors::store(to + (std::size_t{2} * g + 1) * kRegisterBytes, Vectors::zip_upper(of[0], of[1]));
      }
    }
    if constexpr (kM != kSide) store_block(padded, kM, kSide, out);
    return Vectors::any(any);
  }

  /// Computes one C block; returns whether an element is not zero. Clamped sums of several runs add up to the clamped
  /// sum of all.
  template <bool kWide>
  [[gnu::always_inline]] static bool c_block(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count,
                                             std::byte* out) {
    const std::uint32_t run_pairs = x.arithmetic.flush_pairs;
    Sums sums = sum_run<kWide>(x, pairs, std::min(run_pairs, count));
    for (std::uint32_t p = run_pairs; p < count; p += run_pairs) {
      const Sums more = sum_run<kWide>(x, pairs + p, std::min(run_pairs, count - p));
      for (std::uint32_t g = 0; g < kRowGroups; ++g) {
        for (std::uint32_t c = 0; c < kColGroups; ++c) {
          sums.of[g][c] = Vectors::add_clamped(sums.of[g][c], more.of[g][c]);
        }
      }
    }
    return store(sums, out);
  }

  /// How the sums of an accumulator grow: as AccumulatorKernel has it.
  enum class Growth { plain, clamped, wide };

  /// Elements of A as add() meets them, spread over four columns.
  template <std::uint32_t kStep = 0>
  [[gnu::always_inline]] static void spread_steps(const std::uint16_t* a, Register (&out)[kSteps][kRowGroups]) {
    for (std::uint32_t g = 0; g < kRowGroups; ++g) out[kStep][g] = Vectors::pick<kStep>(rows_of_a(a, g));
    if constexpr (kStep + 1 < kSteps) spread_steps<kStep + 1>(a, out);
  }

  /// An AccumulatorKernel::Add.
  template <Growth kGrowth>
  static std::uint32_t add(const AddRun& run, std::uint32_t first_col, std::uint32_t end_col, std::uint32_t* sums) {
    constexpr bool kWide = kGrowth == Growth::wide;
    const auto [a, b, cols, count, ahead, a_row_sums] = run;
    Register rows[kSteps][kRowGroups];
    Register high_rows[kSteps][kRowGroups];
    Register row_sums[kRowGroups];
    spread_steps(a, rows);
    if constexpr (kWide) {
      std::uint32_t shifted[kSide];
      for (std::uint32_t r = 0; r < kSide; ++r) shifted[r] = a_row_sums[r] << 7;
      for (std::uint32_t g = 0; g < kRowGroups; ++g) {
        row_sums[g] = Vectors::repeat_each(shifted + g * Vectors::kQuarters);
        for (std::uint32_t t = 0; t < kSteps; ++t) {
          high_rows[t][g] = Vectors::high_bytes(rows[t][g]);
          rows[t][g] = Vectors::low_bytes(rows[t][g]);
        }
      }
    }
    std::uint32_t x = 0;
    for (; x < count && cols[x] < end_col; ++x) {
      const auto* const fetched = reinterpret_cast<const char*>(ahead + x * kElements);
      for (std::size_t at = 0; at < kElements * sizeof(std::uint16_t); at += kLineBytes) {
        __builtin_prefetch(fetched + at);
      }
      std::uint32_t* at = sums + (cols[x] - first_col) * kSumElements;
#pragma GCC unroll 2
      for (std::uint32_t c = 0; c < kColGroups; ++c) {
        Register columns[kSteps];
#pragma GCC unroll 4
        for (std::uint32_t t = 0; t < kSteps; ++t) columns[t] = columns_of_b<kWide>(b + x * kElements, t, c);
#pragma GCC unroll 4
        for (std::uint32_t g = 0; g < kRowGroups; ++g, at += Vectors::kLanes) {
          Register low = kGrowth == Growth::plain ? Vectors::load(at) : Vectors::zero();
          Register high = Vectors::zero();
#pragma GCC unroll 4
          for (std::uint32_t t = 0; t < kSteps; ++t) {
            low = Vectors::add_products(low, rows[t][g], columns[t]);
            if constexpr (kWide) high = Vectors::add_products(high, high_rows[t][g], columns[t]);
          }
          if constexpr (kWide) low = Vectors::join_digits(low, high, row_sums[g]);
          Vectors::store(at, kGrowth == Growth::plain ? low : Vectors::add_clamped(Vectors::load(at), low));
        }
      }
    }
    return x;
  }

  /// AccumulatorKernel::store.
  static std::byte* store_sums(std::uint32_t row, std::uint32_t first_col, std::uint32_t count, std::uint32_t* at,
                               std::byte* out) {
    constexpr std::size_t kRecord = output_record_bytes(kM);
    constexpr std::size_t kBytesAhead = 1024;  // of records, whose lines stores would wait for: 4 % of P1 and P2
    for (std::uint32_t x = 0; x < count; ++x) {
      Sums sums;
      for (std::uint32_t c = 0; c < kColGroups; ++c) {
        for (std::uint32_t g = 0; g < kRowGroups; ++g, at += Vectors::kLanes) {
          sums.of[g][c] = Vectors::load(at);
          Vectors::store(at, Vectors::zero());
        }
      }
      for (std::size_t line = 0; line + kLineBytes <= kRecord; line += kLineBytes) {
        __builtin_prefetch(out + kBytesAhead + line, 1);
      }
      const BlockIndex index{.i = row, .j = first_col + x};  // overwritten unless a sum is not zero
      std::memcpy(out, &index, kIndexBytes);
      out += store(sums, out + kIndexBytes) ? kRecord : 0;
    }
    return out;
  }

  static AccumulatorKernel accumulator(Isa isa) {
    return {.sum_elements = kSumElements,
            .sums_bytes = kSide == 4 ? kSide4SumsBytes : kSumsBytes,
            .least_pairs = least_summed_pairs(isa, kM),
            .add = add<Growth::plain>,
            .add_clamped = add<Growth::clamped>,
            .add_wide = add<Growth::wide>,
            .store = store_sums};
  }
};

/// Larger sides: strips of some rows, as equal as can be, and the columns of a register.
/// Values: kBlockSide = m if it is known when compiling, else 0.
template <std::uint32_t kBlockSide>
struct LargeBlocks {
  static constexpr std::uint32_t kM = kBlockSide;
  static constexpr std::uint32_t kRunPairs = 16;  // their blocks stay in the second-level cache for all strips

  static PackedShape shape_of(const PackedBlocks& x) {
    return kM == 0 ? x.shape : PackedShape{.m = kM, .rows = kM, .inner = kM, .cols = kM, .packing = x.shape.packing};
  }

  /// One run of pairs of a C block, and where its sums go.
  struct PairRun {
    const PackedBlocks& x;
    const PairRef* pairs;
    std::uint32_t count;
    const std::uint32_t* row_sums;  ///< 2^7 times those of A's blocks: [m], wide arithmetic only
    std::uint32_t* out;             ///< [m, cols]
  };

  template <bool kWide, std::uint32_t kRows>
  static void run_strip(const PairRun& run, std::uint32_t row, std::uint32_t col) {
    const PackedShape shape = shape_of(run.x);
    const std::size_t inner = shape.inner;
    const std::size_t cols = shape.cols;
    const std::size_t b_elements = inner * cols;
    constexpr std::size_t kMostFetched = 1024;  // bytes of a block of B
    const std::size_t fetched = row == 0 && col == 0 ? std::min(b_elements * sizeof(std::uint16_t), kMostFetched) : 0;
    const std::size_t pairs_ahead = std::clamp<std::size_t>(3 * kMostFetched / b_elements, 1, kPairsAhead);
    Register low[kRows];
    Register high[kRows];
#pragma GCC unroll 12
    for (std::uint32_t r = 0; r < kRows; ++r) low[r] = high[r] = Vectors::zero();
    for (std::uint32_t p = 0; p < run.count; ++p) {
      const auto* const ahead = reinterpret_cast<const char*>(run.x.b + run.pairs[p + pairs_ahead].b * b_elements);
      for (std::size_t at = 0; at < fetched; at += kLineBytes) __builtin_prefetch(ahead + at);
      const std::uint16_t* const a = run.x.a + run.pairs[p].a * (shape.rows * inner) + row * inner;
      const std::uint16_t* const b = run.x.b + run.pairs[p].b * b_elements + col * 2;
#pragma GCC unroll 1
      for (std::size_t t = 0; t < inner; t += 2) {
        const Register rows = Vectors::load(b + t * cols);
        const Register columns = kWide ? Vectors::offset(rows) : rows;
#pragma GCC unroll 12
        for (std::uint32_t r = 0; r < kRows; ++r) {
          const Register both = Vectors::spread(two_elements(a + r * inner + t));
          if constexpr (kWide) {
            low[r] = Vectors::add_products(low[r], Vectors::low_bytes(both), columns);
            high[r] = Vectors::add_products(high[r], Vectors::high_bytes(both), columns);
          } else {
            low[r] = Vectors::add_products(low[r], both, columns);
          }
        }
      }
    }
    for (std::uint32_t r = 0; r < kRows; ++r) {
      if constexpr (kWide) {
        const auto of_row = static_cast<std::int32_t>(run.row_sums[row + r]);
        low[r] = Vectors::join_digits(low[r], high[r], Vectors::spread(of_row));
      }
      Vectors::store(run.out + (row + r) * cols + col, low[r]);
    }
  }

  /// A strip of `num_rows` rows. Values: kRows = the most.
  template <bool kWide, std::uint32_t kRows>
  static void run_rows(const PairRun& run, std::uint32_t num_rows, std::uint32_t row, std::uint32_t col) {
    if constexpr (kRows > 1) {
      if (num_rows < kRows) return run_rows<kWide, kRows - 1>(run, num_rows, row, col);
    }
    run_strip<kWide, kRows>(run, row, col);
  }

  /// Sums of at most kRunPairs and flush_pairs pairs. Shapes: out [m, cols].
  template <bool kWide>
  static void sum_run(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count, std::uint32_t* out) {
    constexpr std::uint32_t kMostRows = kWide ? Vectors::kWideStripRows : Vectors::kNarrowStripRows;
    const PackedShape shape = shape_of(x);
    const std::uint32_t m = shape.m;
    std::uint32_t row_sums[kMaxBlockDim] = {};
    for (std::uint32_t p = 0; kWide && p < count; ++p) {
      const std::uint32_t* const of_block = x.a_row_sums + std::size_t{pairs[p].a} * shape.rows;
      for (std::uint32_t r = 0; r < m; ++r) row_sums[r] += of_block[r] << 7;
    }
    const PairRun run{.x = x, .pairs = pairs, .count = count, .row_sums = row_sums, .out = out};
    const std::uint32_t num_strips = (m - 1) / kMostRows + 1;
    for (std::uint32_t strip = 0; strip < num_strips; ++strip) {
      const std::uint32_t row = strip * m / num_strips;
      const std::uint32_t num_rows = (strip + 1) * m / num_strips - row;
      for (std::uint32_t col = 0; col < shape.cols; col += Vectors::kLanes) {
        run_rows<kWide, kMostRows>(run, num_rows, row, col);
      }
    }
  }

  template <bool kWide>
  static bool c_block(const PackedBlocks& x, const PairRef* pairs, std::uint32_t count, std::byte* out) {
    const auto [m, rows, inner, cols, packing] = shape_of(x);
    const std::uint32_t num_sums = m * cols;
    const std::uint32_t run_pairs = std::min(x.arithmetic.flush_pairs, kRunPairs);
    alignas(64) std::uint32_t padded[kMaxBlockDim * kMaxBlockDim];
    // Sums of one run without padding go straight into the record.
    const bool is_direct = m == cols && count <= run_pairs;
    std::uint32_t* const sums = is_direct ? reinterpret_cast<std::uint32_t*>(out) : padded;
    sum_run<kWide>(x, pairs, std::min(run_pairs, count), sums);
    for (std::uint32_t p = run_pairs; p < count; p += run_pairs) {
      alignas(64) std::uint32_t more[kMaxBlockDim * kMaxBlockDim];
      sum_run<kWide>(x, pairs + p, std::min(run_pairs, count - p), more);
      for (std::uint32_t e = 0; e < num_sums; e += Vectors::kLanes) {
        Vectors::store(sums + e, Vectors::add_clamped(Vectors::load(sums + e), Vectors::load(more + e)));
      }
    }
    if (!is_direct) store_block(sums, m, cols, out);
    Register any = Vectors::zero();
    for (std::uint32_t e = 0; e < num_sums; e += Vectors::kLanes) {
      any = Vectors::bits_of_both(any, Vectors::load(sums + e));
    }
    return Vectors::any(any);
  }
};

/// A MultiplyCBlocks.
template <class Blocks, bool kWide>
std::byte* multiply_c_blocks(const PackedBlocks& x, const CBlockList& list, std::byte* out) {
  constexpr std::size_t kRecordsAhead = 4;
  const std::size_t record = output_record_bytes(Blocks::kM != 0 ? Blocks::kM : x.shape.m);
  std::uint32_t begin = list.begin;
  for (const CBlock& c_block : list.c_blocks) {
    if constexpr (Blocks::kM >= 7) {  // stores wait for their lines one after the other: a ninth of P3
      for (std::size_t at = 0; at < record; at += kLineBytes) __builtin_prefetch(out + kRecordsAhead * record + at, 1);
    }
    const bool any = Blocks::template c_block<kWide>(x, list.pairs + begin, c_block.end - begin, out + kIndexBytes);
    begin = c_block.end;
    if (!any) continue;
    const BlockIndex at{.i = list.row, .j = c_block.col};
    std::memcpy(out, &at, kIndexBytes);
    out += record;
  }
  return out;
}

/// Calls choose(SmallBlocks of the side), or choose(LargeBlocks) of it.
template <class Choose>
auto with_blocks_of(std::uint32_t m, const Choose& choose) {
  switch (m) {
    case 4:
      return choose(SmallBlocks<4>{});
    case 5:
      return choose(SmallBlocks<5>{});
    case 6:
      return choose(SmallBlocks<6>{});
    case 7:
      return choose(SmallBlocks<7>{});
    case 8:
      return choose(SmallBlocks<8>{});
    case 16:
      return choose(LargeBlocks<16>{});
    default:
      return choose(LargeBlocks<0>{});
  }
}

inline MultiplyCBlocks block_kernel(const PackedShape& shape, const Arithmetic& arithmetic) {
  return with_blocks_of(shape.m, [&](auto blocks) -> MultiplyCBlocks {
    using Blocks = decltype(blocks);
    return arithmetic.wide ? multiply_c_blocks<Blocks, true> : multiply_c_blocks<Blocks, false>;
  });
}

inline AccumulatorKernel accumulator_kernel(const PackedShape& shape, Isa isa) {
  return with_blocks_of(shape.m, [&](auto blocks) -> AccumulatorKernel {
    if constexpr (requires { blocks.accumulator(isa); }) return blocks.accumulator(isa);
    return {};
  });
}

}  // namespace
}  // namespace spmm::cpu
SPMM_ISA_END
