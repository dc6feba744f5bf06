// Sums in shared memory, 32 bits and a saturation bit per element.
#pragma once

#include <cstdint>

#include "spmm/saturate.hpp"

namespace spmm::kernels {

/// 32-bit words of one C block's sums: an element each, and a bit each.
__host__ __device__ constexpr std::uint32_t c_block_words(std::uint32_t elements) {
  return elements + (elements + 31) / 32;
}

/// What the columns of a row are XORed with if m is 32 or 64: lanes add to every other column of eight in eight
/// rows, whose first elements lie in the same bank. Rows 0 to 3 begin at columns 0, 8, 16, 24, rows 4 to 7 one
/// column further.
__device__ constexpr std::uint32_t row_swizzle(std::uint32_t row) {
  return row % 4 * 8 | row / 4 % 2;
}

/// Sums of a column chunk, m x m elements per C block also if operands are padded. M = 0: m is known at run time.
/// An element is a 32-bit sum and a sticky bit, which a carry out of the sum sets: the element is saturated.
template <std::uint32_t M>
struct Accumulators {
  std::uint32_t* sums;       // [num_c_blocks, elements], shared
  std::uint32_t* saturated;  // [num_c_blocks, bit words], shared, a bit per element
  std::uint32_t run_time_elements;
  std::uint32_t address;  // of sums in the shared window; the compiler would compute it for every access

  __device__ Accumulators(std::uint32_t* shared, std::uint32_t num_c_blocks, std::uint32_t num_elements)
      : sums(shared), saturated(shared + num_c_blocks * num_elements), run_time_elements(num_elements) {
    const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
    asm volatile("mov.u32 %0, %1;" : "=r"(address) : "r"(at));
  }

  [[nodiscard]] __device__ std::uint32_t elements() const { return M != 0 ? M * M : run_time_elements; }

  [[nodiscard]] __device__ std::uint32_t c_block_bytes() const { return elements() * 4; }
  /// Address of position p of C block 0.
  [[nodiscard]] __device__ std::uint32_t base(std::uint32_t p) const { return address + p * 4; }

  /// Adds to the element at position p of a C block, whose address is known. Fits: no sum of this block row can leave
  /// 32 bits; else sums are checked for overflow.
  template <bool Fits>
  __device__ void add_at(std::uint32_t at, std::uint32_t c_block, std::uint32_t p, std::uint64_t value) const {
    const auto low = static_cast<std::uint32_t>(value);
    if constexpr (Fits) {
      asm volatile("red.shared.add.u32 [%0], %1;" ::"r"(at), "r"(low));  // other warps add to the same C block
    } else if (value > kMaxVal) {
      mark_saturated(c_block, p);
    } else {
      std::uint32_t before = 0;
      asm volatile("atom.shared.add.u32 %0, [%1], %2;"
                   : "=r"(before)
                   : "r"(at), "r"(low));  // as above, and the old value shows a carry
      if (before + low < before) mark_saturated(c_block, p);
    }
  }
  /// Element e of a C block (M = 0: at position e). Fits: as above, no bit is set.
  template <bool Fits>
  [[nodiscard]] __device__ std::uint32_t value(std::uint32_t c_block, std::uint32_t e) const {
    const std::uint32_t p = e;
    if (!Fits && is_saturated(c_block, p)) return kMaxVal;
    return sums[c_block * elements() + p];
  }
  /// Elements 2x and 2x + 1 of a C block with an even number of elements (M = 0: at these positions).
  template <bool Fits>
  [[nodiscard]] __device__ uint2 pair(std::uint32_t c_block, std::uint32_t x) const {
    const std::uint32_t p = 2 * x;
    uint2 two = *reinterpret_cast<const uint2*>(sums + c_block * elements() + p);
    if constexpr (!Fits) {
      const std::uint32_t marks = *bits(c_block, p) >> p % 32;
      if (marks & 1) two.x = kMaxVal;
      if (marks & 2) two.y = kMaxVal;
    }
    return two;
  }
  /// Whether any of the elements at positions 4x to 4x + 3 of a C block is not zero.
  template <bool Fits>
  [[nodiscard]] __device__ bool any_of_four(std::uint32_t c_block, std::uint32_t x) const {
    const uint4 four = *reinterpret_cast<const uint4*>(sums + c_block * elements() + 4 * x);
    return (four.x | four.y | four.z | four.w) != 0 || (!Fits && (*bits(c_block, 4 * x) >> 4 * x % 32 & 15) != 0);
  }

 private:
  [[nodiscard]] __device__ std::uint32_t* bits(std::uint32_t c_block, std::uint32_t p) const {
    return saturated + c_block * ((elements() + 31) / 32) + p / 32;
  }
  [[nodiscard]] __device__ bool is_saturated(std::uint32_t c_block, std::uint32_t p) const {
    return *bits(c_block, p) >> p % 32 & 1;
  }
  __device__ void mark_saturated(std::uint32_t c_block, std::uint32_t p) const {
    std::uint32_t* const word = bits(c_block, p);
    const std::uint32_t bit = 1u << p % 32;
    if ((*word & bit) == 0) atomicOr(word, bit);  // bits only get set: a stale read costs one atomic
  }
};

}  // namespace spmm::kernels
