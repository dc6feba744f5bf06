#include "cpu/simd/kernels.hpp"

#include <algorithm>

#include "cpu/simd/tile_kernel.hpp"

namespace spmm::cpu {
namespace {

constexpr std::uint64_t kNarrowLimit = 1u << 15;
constexpr std::uint64_t kMaxUnsignedSum = 0xFFFF'FFFFu;
constexpr std::uint64_t kMaxSignedSum = 0x7FFF'FFFFu;
constexpr std::uint64_t kMaxByte = 255;

}  // namespace

Arithmetic choose_arithmetic(const PackedShape& shape, std::uint32_t a_bound, std::uint32_t b_bound) {
  const std::uint64_t narrow_term = std::max<std::uint64_t>(1, std::uint64_t{a_bound} * b_bound * shape.m);
  const std::uint64_t narrow_pairs = kMaxUnsignedSum / narrow_term;
  if (shape.packing == Packing::rows) {
    return {.wide = narrow_pairs == 0, .flush_pairs = std::max(1u, static_cast<std::uint32_t>(narrow_pairs))};
  }
  if (a_bound < kNarrowLimit && b_bound < kNarrowLimit && narrow_pairs != 0) {
    return {.wide = false, .flush_pairs = static_cast<std::uint32_t>(narrow_pairs)};
  }
  // A byte of A times an offset element of B: -2^15 at the lowest. A 256th of the whole sum fits 32 bits, too.
  return {.wide = true, .flush_pairs = static_cast<std::uint32_t>(kMaxSignedSum / (kMaxByte * kNarrowLimit * shape.m))};
}

#if !defined(__x86_64__)
bool avx2_available() {
  return false;
}
bool avx512_vnni_available() {
  return false;
}
#endif

MultiplyCBlocks choose_kernel([[maybe_unused]] Isa isa, const PackedShape& shape, const Arithmetic& arithmetic) {
#if defined(__x86_64__)
  if (isa == Isa::avx512_vnni) return avx512_vnni_kernel(shape, arithmetic);
  if (isa == Isa::avx2) return avx2_kernel(shape, arithmetic);
#endif
  return portable_kernel(shape, arithmetic);
}

AccumulatorKernel choose_accumulator([[maybe_unused]] Isa isa, [[maybe_unused]] const PackedShape& shape) {
#if defined(__x86_64__)
  if (isa == Isa::avx512_vnni) return avx512_vnni_accumulator(shape);
  if (isa == Isa::avx2) return avx2_accumulator(shape);
#endif
  return {};
}

TileKernel choose_tile_kernel([[maybe_unused]] Isa isa, std::uint32_t m, [[maybe_unused]] std::uint32_t max_element) {
#if defined(__x86_64__)
  if (isa == Isa::avx512_vnni) return avx512_tile_kernel(m, max_element);
  if (isa == Isa::avx2) return avx2_tile_kernel(m);
#endif
  return portable_tile_kernel(m);
}

}  // namespace spmm::cpu
