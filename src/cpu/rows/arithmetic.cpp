// Bounds of the elements of block rows, and the arithmetic that they allow.
#include "cpu/rows/arithmetic.hpp"

#include <algorithm>
#include <atomic>

namespace spmm::cpu {
namespace {

constexpr std::uint64_t kBlockGrain = 1u << 14;  // blocks per piece of parallel work
constexpr std::uint64_t kRowGrain = 256;         // block rows likewise
constexpr std::uint32_t kPlentyOfPairs = 16;     // between flushes: more would hardly be faster
constexpr std::uint32_t kMaxElement = 0xFFFF;    // of any operand

/// The bits that occur in the elements of each block row. Shapes: returns [num_rows].
AlignedArray<std::uint32_t> row_bits(const PackedOperand& operand, std::uint64_t block_elements, const Run& run) {
  AlignedArray<std::uint32_t> bits(operand.num_rows());
  std::fill(bits.begin(), bits.end(), 0);
  run.parallel_for(operand.cols.size(), kBlockGrain, [&](std::uint64_t begin, std::uint64_t end) {
    run.check_cancelled();
    const auto* const ends = operand.row_ptr.data() + 1;
    auto row = static_cast<std::uint32_t>(std::upper_bound(ends, ends + operand.num_rows(), begin) - ends);
    for (std::uint64_t x = begin; x < end; ++row) {
      const std::uint64_t row_end = std::min<std::uint64_t>(end, ends[row]);
      std::uint16_t seen = 0;
      for (std::uint64_t e = x * block_elements; e < row_end * block_elements; ++e) {
        seen = static_cast<std::uint16_t>(seen | operand.values[e]);
      }
      std::atomic_ref(bits[row]).fetch_or(seen);  // a row may lie in several pieces
      x = row_end;
    }
  });
  return bits;
}

/// Row sums of A's blocks. Shapes: returns [num_blocks of A, shape.rows].
AlignedArray<std::uint32_t> row_sums_of(const PackedOperand& a, const PackedShape& shape, const Run& run) {
  AlignedArray<std::uint32_t> sums(a.cols.size() * shape.rows);
  run.parallel_for(sums.size(), kBlockGrain * 16, [&](std::uint64_t begin, std::uint64_t end) {
    run.check_cancelled();
    for (std::uint64_t row = begin; row < end; ++row) {
      const std::uint16_t* values = a.values.data() + row * shape.inner;
      std::uint32_t sum = 0;
      for (std::uint32_t t = 0; t < shape.inner; ++t) sum += values[t];
      sums[row] = sum;
    }
  });
  return sums;
}

}  // namespace

RowArithmetic choose_row_arithmetic(const PackedOperand& a, const PackedOperand& b, const PackedShape& shape,
                                    const Run& run) {
  RowArithmetic out;
  out.common = choose_arithmetic(shape, a.seen_bits, b.seen_bits);
  if (shape.packing == Packing::rows || (!out.common.wide && out.common.flush_pairs >= kPlentyOfPairs)) return out;
  out.wide_flush_pairs = choose_arithmetic(shape, kMaxElement, kMaxElement).flush_pairs;
  const AlignedArray<std::uint32_t> b_bits = row_bits(b, shape.b_elements(), run);
  out.flush_pairs = row_bits(a, shape.a_elements(), run);
  std::atomic<bool> any_wide = false;
  run.parallel_for(a.num_rows(), kRowGrain, [&](std::uint64_t begin, std::uint64_t end) {
    run.check_cancelled();
    for (std::uint64_t row = begin; row < end; ++row) {
      std::uint32_t met = 0;
      for (std::uint32_t x = a.row_ptr[row]; x < a.row_ptr[row + 1]; ++x) {
        if (a.b_rows()[x] != kNoRow) met |= b_bits[a.b_rows()[x]];
      }
      const Arithmetic arithmetic = choose_arithmetic(shape, out.flush_pairs[row], met);
      out.flush_pairs[row] = arithmetic.wide ? 0 : arithmetic.flush_pairs;
      if (arithmetic.wide) any_wide = true;
    }
  });
  if (any_wide && shape.packing == Packing::row_pairs) out.a_row_sums = row_sums_of(a, shape, run);
  return out;
}

}  // namespace spmm::cpu
