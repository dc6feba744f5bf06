#include "cpu/simd/kernels.hpp"

#include "cpu/simd/accumulator_kernel.hpp"

#include <algorithm>

namespace spmm::cpu {
namespace {

constexpr std::uint64_t kNarrowLimit = 1u << 15;
constexpr std::uint64_t kMaxUnsignedSum = 0xFFFF'FFFFu;
constexpr std::uint64_t kMaxSignedSum = 0x7FFF'FFFFu;
constexpr std::uint64_t kMaxByte = 255;

/// Sums of products of bytes. The middle one of wide arithmetic has two of them for each element, and a carry.
Arithmetic choose_digits(std::uint32_t m, std::uint64_t a_bound, std::uint64_t b_bound) {
  constexpr std::uint64_t kCarry = 1u << 24;
  const bool is_wide = std::max(a_bound, b_bound) > kMaxByte;
  const std::uint64_t most = is_wide ? kMaxUnsignedSum - kCarry : kMaxUnsignedSum;
  const std::uint64_t term = is_wide ? 2 * kMaxByte * kMaxByte : std::max<std::uint64_t>(1, a_bound * b_bound);
  return {.wide = is_wide, .flush_pairs = static_cast<std::uint32_t>(most / (term * m))};
}

}  // namespace

Arithmetic choose_arithmetic(const PackedShape& shape, std::uint32_t a_bound, std::uint32_t b_bound) {
  if (shape.packing == plan::Packing::rows) return {};  // 64-bit sums
  if (shape.packing == plan::Packing::columns) return choose_digits(shape.m, a_bound, b_bound);
  const std::uint64_t narrow_term = std::max<std::uint64_t>(1, std::uint64_t{a_bound} * b_bound * shape.m);
  const std::uint64_t narrow_pairs = kMaxUnsignedSum / narrow_term;
  if (a_bound < kNarrowLimit && b_bound < kNarrowLimit && narrow_pairs != 0) {
    return {.wide = false, .flush_pairs = static_cast<std::uint32_t>(narrow_pairs)};
  }
  // A byte of A times an offset element of B: -2^15 at the lowest. A 256th of the whole sum fits 32 bits, too.
  return {.wide = true, .flush_pairs = static_cast<std::uint32_t>(kMaxSignedSum / (kMaxByte * kNarrowLimit * shape.m))};
}

MultiplyCBlocks choose_kernel(Isa isa, const PackedShape& shape, const Arithmetic& arithmetic) {
  switch (isa) {
    case Isa::avx512_vnni:
      return avx512_vnni_kernel(shape, arithmetic);
    case Isa::avx2:
      return avx2_kernel(shape, arithmetic);
    case Isa::neon_i8mm:
      return i8mm_kernel(shape, arithmetic);
    case Isa::neon_dotprod:
      return neon_kernel(shape, arithmetic);
    case Isa::portable:
      break;
  }
  return portable_kernel();
}

AccumulatorKernel choose_accumulator(Isa isa, const PackedShape& shape) {
  switch (isa) {
    case Isa::avx512_vnni:
      return avx512_vnni_accumulator(shape);
    case Isa::avx2:
      return avx2_accumulator(shape);
    case Isa::neon_i8mm:
      return i8mm_accumulator(shape);
    case Isa::neon_dotprod:
      return neon_accumulator(shape);
    case Isa::portable:
      break;
  }
  return {};
}

}  // namespace spmm::cpu
