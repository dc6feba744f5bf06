// Which instruction set the kernels use, and how they want their operands packed.
#pragma once

#include <cstdint>
#include <string_view>

namespace spmm::cpu {

enum class Isa : std::uint8_t { portable, avx2, avx512_vnni };

std::string_view isa_name(Isa isa);

/// The widest one of this machine, or a lower one forced by the environment variable SPMM_CPU_ISA
/// ("portable", "avx2", "avx512-vnni"). Errors: UsageError for an unknown name or one this machine does not have.
Isa choose_isa();

/// Packed blocks of both operands.
/// Layout: A [rows, inner] row-major; B [inner / 2, cols, 2] (pairs of rows interleaved, as dot products of two want
/// them) if interleaved, else [inner, cols]. Padding is zero.
struct PackedShape {
  std::uint32_t m = 0;
  std::uint32_t rows = 0;
  std::uint32_t inner = 0;
  std::uint32_t cols = 0;
  bool interleaved = false;

  [[nodiscard]] std::uint64_t a_elements() const { return std::uint64_t{rows} * inner; }
  [[nodiscard]] std::uint64_t b_elements() const { return std::uint64_t{inner} * cols; }
};

/// Sides 4 and 8 have kernels of their own, smaller ones are padded to them, larger ones are cut into strips of 8 rows
/// and 16 columns.
PackedShape packed_shape(Isa isa, std::uint32_t m);

/// The largest one of any instruction set: what predictions of memory assume.
PackedShape largest_packed_shape(std::uint32_t m);

}  // namespace spmm::cpu
