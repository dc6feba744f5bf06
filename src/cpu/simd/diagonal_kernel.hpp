// What the kernels for diagonals see and do: sums of rows of C, side 1, of operands that lie on a few diagonals each.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/simd/isa.hpp"

namespace spmm::cpu {

/// Rows of C that are summed together, and the room before the first and after the last row of a diagonal.
inline constexpr std::uint32_t kDiagonalRows = 32;
/// Sums of a row are padded to a multiple of this.
inline constexpr std::uint32_t kDiagonalLanes = 16;

/// Sums of eight rows.
using Words = std::uint32_t __attribute__((vector_size(32), may_alias));

/// A diagonal of A times one of B, row by row: where the factors of a row lie, from those of row 0 of the first
/// diagonal.
struct DiagonalTerm {
  std::ptrdiff_t a;
  std::ptrdiff_t b;
};

/// The terms of kDiagonalRows rows.
struct DiagonalRows {
  const std::uint16_t* a;  ///< elements of the first row, and of the rows after it
  const std::uint16_t* b;
  const DiagonalTerm* terms;
  const std::uint32_t* ends;  ///< [num_sums] end of the terms of each sum
  std::uint32_t num_sums;     ///< a multiple of kDiagonalLanes
};

struct DiagonalKernel {
  /// Shapes: sums [kDiagonalRows, num_sums], aligned to 64 bytes.
  using Add = void (*)(const DiagonalRows& rows, std::uint32_t* sums);

  Add add[2] = {};  ///< [saturates]: clamped at the largest u32, or no sum may pass it

  /// Writes the records of the sums of a row that are not zero. Shapes: offsets [num_sums] column less row, modulo
  /// 2^32; out has room for num_sums records. Returns the end of what was written.
  std::byte* (*write)(std::uint32_t row, const std::uint32_t* offsets, const std::uint32_t* sums,
                      std::uint32_t num_sums, std::byte* out) = nullptr;
};

DiagonalKernel portable_diagonal_kernel();
DiagonalKernel avx2_diagonal_kernel();
DiagonalKernel avx512_diagonal_kernel();
DiagonalKernel choose_diagonal_kernel(Isa isa);

}  // namespace spmm::cpu
