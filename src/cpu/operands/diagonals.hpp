// Operands of side 1 whose elements lie on a few diagonals, as those of stencils and bands do: diagonal by diagonal, so
// that the rows of a product need no columns, and neighbouring rows are summed side by side.
#pragma once

#include <cstdint>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "base/run/run.hpp"
#include "cpu/simd/diagonal_kernel.hpp"

namespace spmm::cpu {

/// Of an operand, at most.
inline constexpr std::size_t kMaxDiagonals = 64;

/// Of both operands, column less row, ascending.
struct DiagonalOffsets {
  std::vector<std::int32_t> a;
  std::vector<std::int32_t> b;
};

struct Prepared;

/// The diagonals of a product that is faster by them than by tiles, as those are few and full enough, and takes no more
/// memory; else none. Values: m = 1, counted. Errors: Interrupted.
DiagonalOffsets find_diagonals(const Prepared& product, const Run& run);

struct DiagonalOperand {
  std::vector<std::int32_t> offsets;   ///< of the diagonals
  std::uint64_t stride = 0;            ///< rows of the matrix, with room for kDiagonalRows on both sides
  AlignedArray<std::uint16_t> values;  ///< [offsets, stride] 0 where nothing is stored; row 0 at kDiagonalRows
};

/// Lists and sums of a worker, for each product of two diagonals, at most.
inline constexpr std::uint64_t kDiagonalThreadBytes =
    kDiagonalRows * sizeof(std::uint32_t) + sizeof(DiagonalTerm) + sizeof(std::uint32_t);

/// A product of two of them.
struct DiagonalProduct {
  DiagonalOperand a;
  DiagonalOperand b;
  std::vector<std::uint32_t> offsets;  ///< of C, modulo 2^32, ascending; padded to whole vectors of the kernel
  std::vector<DiagonalTerm> terms;     ///< sum by sum
  std::vector<std::uint32_t> a_terms;  ///< [terms] the diagonal of A
  std::vector<std::uint32_t> ends;     ///< [offsets] end of the terms of each sum
  std::uint32_t num_rows = 0;
  bool saturates = false;  ///< sums might pass the largest u32
};

/// Takes the elements of both operands. Values: product.diagonals are not empty. Errors: Interrupted.
DiagonalProduct make_diagonal_product(Prepared& product, const Run& run);

}  // namespace spmm::cpu
