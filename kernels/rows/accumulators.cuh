// Saturating sums in shared memory, and the records that they become.
#pragma once

#include <cstdint>

#include "kernels/blocks/record_output.cuh"
#include "spmm/saturate.hpp"

namespace spmm::kernels {

/// What the columns of a row of a C block are XORed with if m = P: lanes add to every other column of eight in eight
/// rows. P = 32, 64: the rows begin in the same bank; 0 to 3 begin at columns 0, 8, 16, 24, rows 4 to 7 one column
/// further. P = 16: every second row begins in the same bank; rows 0, 2, 4, 6 use even columns, odd ones, and likewise
/// in the other half.
template <std::uint32_t P>
__device__ constexpr std::uint32_t row_swizzle(std::uint32_t row) {
  if (P == 16) return row / 2 % 2 | row / 4 % 2 * 8;
  return P % 32 == 0 ? row % 4 * 8 | row / 4 % 2 : 0;
}

/// Sums of C blocks, m x m elements each also if operands are padded. M = 0: m is known at run time.
template <std::uint32_t M>
struct Accumulators {
  std::uint32_t* sums;  // [num_c_blocks, elements], shared
  std::uint32_t run_time_elements;
  std::uint32_t address;  // of sums in the shared window; the compiler would compute it for every access

  __device__ Accumulators(std::uint32_t* shared, std::uint32_t num_elements)
      : sums(shared), run_time_elements(num_elements) {
    const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
    asm volatile("mov.u32 %0, %1;" : "=r"(address) : "r"(at));
  }

  [[nodiscard]] __device__ std::uint32_t elements() const { return M != 0 ? M * M : run_time_elements; }

  [[nodiscard]] __device__ std::uint32_t c_block_bytes() const { return elements() * 4; }
  /// Address of position p of C block 0.
  [[nodiscard]] __device__ std::uint32_t base(std::uint32_t p) const { return address + p * 4; }

  /// Adds to the element at an address. Fits: no sum of this block row can leave 32 bits. Else an addition that passes
  /// 2^32 - 1 sets all bits afterwards: additions that come later pass it again, and do so, too.
  template <bool Fits>
  __device__ static void add_at(std::uint32_t at, std::uint64_t value) {
    if constexpr (Fits) {  // other warps add to the same C block
      asm volatile("red.shared.add.u32 [%0], %1;" ::"r"(at), "r"(static_cast<std::uint32_t>(value)));
    } else {
      const std::uint32_t low = value > kMaxVal ? kMaxVal : static_cast<std::uint32_t>(value);
      std::uint32_t before = 0;  // as above; shows whether the sum has passed
      asm volatile("atom.shared.add.u32 %0, [%1], %2;" : "=r"(before) : "r"(at), "r"(low));
      if (low > kMaxVal - before) asm volatile("red.shared.or.b32 [%0], %1;" ::"r"(at), "r"(kMaxVal));
    }
  }
  /// Element e of a C block (M = 0: at position e).
  [[nodiscard]] __device__ std::uint32_t value(std::uint32_t c_block, std::uint32_t e) const {
    return sums[c_block * elements() + e];
  }
  /// Elements 2x and 2x + 1 of a C block with an even number of elements (M = 0: at these positions).
  [[nodiscard]] __device__ uint2 pair(std::uint32_t c_block, std::uint32_t x) const {
    return *reinterpret_cast<const uint2*>(sums + c_block * elements() + 2 * x);
  }
  /// Whether a C block has an element that is not zero, among those from `first` on, `step` apart.
  [[nodiscard]] __device__ bool any(std::uint32_t c_block, std::uint32_t first = 0, std::uint32_t step = 1) const {
    for (std::uint32_t e = first; e < elements(); e += step) {
      if (value(c_block, e) != 0) return true;
    }
    return false;
  }
  /// Clears num_words words from the first sum on, and up to three behind them.
  /// Threads: all of the CTA.
  __device__ void clear(std::uint32_t num_words) const {
    for (std::uint32_t x = threadIdx.x; x * 4 < num_words; x += blockDim.x) reinterpret_cast<uint4*>(sums)[x] = uint4{};
  }
};

/// Writes the records of C blocks; index_of(C block) = {block row, block column}. P: side of padded blocks.
/// Shapes: flags, order: as write_records.
/// Threads: all of the CTA, once all products are added and the order is complete.
template <std::uint32_t P, std::uint32_t M, class Flags, class Order, class Index>
__device__ void write_sums(const Accumulators<M>& sums, std::uint32_t m, const Flags& flags, const Order& order,
                           const Index& index_of, const RecordOutput& out) {
  const auto value_at = [&](std::uint32_t c_block, std::uint32_t e) { return sums.value(c_block, e); };
  const auto pair_at = [&](std::uint32_t c_block, std::uint32_t x) {
    if (P % 16 != 0 || m != P) return sums.pair(c_block, x);
    const std::uint32_t bits = row_swizzle<P>(2 * x / P % 8);
    const uint2 two = sums.pair(c_block, (2 * x ^ bits) / 2);
    return bits % 2 == 0 ? two : uint2{two.y, two.x};
  };
  write_records<M>(flags, order, m, out, RecordContent{value_at, pair_at, index_of});
}

}  // namespace spmm::kernels
