// What every multiply kernel of the row-merge backend sees and does; one file per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "cpu/simd/isa.hpp"

namespace spmm::cpu {

/// One block product: block numbers in packed order.
struct PairRef {
  std::uint32_t a;
  std::uint32_t b;
};

/// One result block: its column, and the end of its pairs in the list (they begin where those of the C block before
/// end).
struct CBlock {
  std::uint32_t col;
  std::uint32_t end;
};

/// Entries that a kernel may read past the end of a list of pairs, to prefetch.
inline constexpr std::uint32_t kPairsAhead = 12;

/// Bounds that a sum of 32 bits keeps, for one block row of C.
/// narrow: elements of A and B below 2^15, plain dot products of signed 16-bit pairs, sums below 2^32.
/// wide: A is split into low and high bytes, B is read minus 2^15; the sums of both halves stay within signed 32 bits,
/// and 2^15 times the row sums of A puts the offset back.
/// Portable kernel, narrow: sums below 2^32. wide: each term is clamped.
struct Arithmetic {
  bool wide = false;
  std::uint32_t flush_pairs = 1;  ///< pairs whose sums are sure to fit 32 bits
};

/// The cheapest exact arithmetic for operands whose elements are at most a_bound and b_bound.
Arithmetic choose_arithmetic(const PackedShape& shape, std::uint32_t a_bound, std::uint32_t b_bound);

/// Operands as kernels see them.
struct PackedBlocks {
  const std::uint16_t* a;           ///< [num_blocks of A, shape.a_elements()]
  const std::uint16_t* b;           ///< [num_blocks of B, shape.b_elements()]
  const std::uint32_t* a_row_sums;  ///< [num_blocks of A, shape.rows], wide arithmetic only
  PackedShape shape;
  Arithmetic arithmetic;
};

/// Two elements of A, as one value for all columns.
inline std::int32_t two_elements(const std::uint16_t* a) {
  std::int32_t both;
  std::memcpy(&both, a, sizeof both);
  return both;
}

/// Pairs of consecutive C blocks of one result row.
struct CBlockList {
  std::uint32_t row;
  std::span<const CBlock> c_blocks;
  std::uint32_t begin;   ///< first pair of the first C block
  const PairRef* pairs;  ///< readable up to kPairsAhead past the last pair
};

/// Computes C blocks and writes their saturated records, those without a non-zero element left out.
/// Shapes: out has room for one record per C block. Returns the end of what was written.
using MultiplyCBlocks = std::byte* (*)(const PackedBlocks& operands, const CBlockList& list, std::byte* out);

MultiplyCBlocks portable_kernel(const PackedShape& shape, const Arithmetic& arithmetic);
MultiplyCBlocks avx2_kernel(const PackedShape& shape, const Arithmetic& arithmetic);
MultiplyCBlocks avx512_vnni_kernel(const PackedShape& shape, const Arithmetic& arithmetic);

/// Whether this machine and this build have them.
bool avx2_available();
bool avx512_vnni_available();

MultiplyCBlocks choose_kernel(Isa isa, const PackedShape& shape, const Arithmetic& arithmetic);

}  // namespace spmm::cpu
