// What the kernels for blocks of side 4 and more see and do; one file for each instruction set.
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

/// A block of A and the blocks of a row of B that it meets, from column first_col on.
/// Shapes: a [a_elements]; b, ahead [count, b_elements]; cols [count], ascending, none below first_col.
/// Values: ahead = blocks of B that are fetched meanwhile, one for each that is multiplied; any address. a_row_sums
/// [rows] of the block, wide arithmetic only.
struct AddRun {
  const std::uint16_t* a;
  const std::uint16_t* b;
  const std::uint32_t* cols;
  std::uint32_t count;
  const std::uint16_t* ahead;
  const std::uint32_t* a_row_sums;
};

/// Elements of a packed block of side 5 to 8, the largest that accumulators take.
inline constexpr std::size_t kAccumulatorElements = 64;

/// Sums of one block row of C, for columns [first_col, end_col), in memory.
/// Shapes: sums [end_col - first_col, sum_elements], aligned to 64 bytes; the order within a block is the kernel's own.
struct AccumulatorKernel {
  std::uint32_t sum_elements = 0;  ///< of a block, with padding
  std::uint32_t sums_bytes = 0;    ///< of a range of columns; more columns make longer runs, fewer stay nearer
  double least_pairs = 0;          ///< of a row for each block column: fewer are faster ordered

  /// Adds the products of a run, up to the first block of B whose column is not below end_col. Returns how many blocks
  /// of B there were.
  using Add = std::uint32_t (*)(const AddRun& run, std::uint32_t first_col, std::uint32_t end_col, std::uint32_t* sums);

  Add add = nullptr;          ///< narrow arithmetic; Values: no sum may leave 32 bits
  Add add_clamped = nullptr;  ///< the same, clamped; Values: no product of two blocks may leave 32 bits
  Add add_wide = nullptr;     ///< wide arithmetic, clamped; null = such rows are faster ordered

  /// Writes the records of the C blocks that are not zero and clears the sums.
  /// Shapes: sums [count, sum_elements], of columns from first_col on; out has room for count records. Returns the end
  /// of what was written.
  std::byte* (*store)(std::uint32_t row, std::uint32_t first_col, std::uint32_t count, std::uint32_t* sums,
                      std::byte* out) = nullptr;

  explicit operator bool() const { return add != nullptr; }
};

/// Sums of a range of columns stay in the first-level cache or near it. Those of side 4 take a line each, and a row of
/// B is soon at its end: P2 with 32, 64 and 128 KB, multiply 0.81, 0.75 and 0.74 of before; P1 (side 8) with 32 and 64
/// KB 0.82 and 0.87.
inline constexpr std::uint32_t kSumsBytes = 32u << 10;
inline constexpr std::uint32_t kSide4SumsBytes = 128u << 10;

MultiplyCBlocks portable_kernel(const PackedShape& shape, const Arithmetic& arithmetic);

// Of x86-64 alone. Accumulators are empty where the instruction set has none for this side.
MultiplyCBlocks avx2_kernel(const PackedShape& shape, const Arithmetic& arithmetic);
MultiplyCBlocks avx512_vnni_kernel(const PackedShape& shape, const Arithmetic& arithmetic);
AccumulatorKernel avx2_accumulator(const PackedShape& shape);
AccumulatorKernel avx512_vnni_accumulator(const PackedShape& shape);

/// Whether this machine has them.
bool avx2_available();
bool avx512_vnni_available();

MultiplyCBlocks choose_kernel(Isa isa, const PackedShape& shape, const Arithmetic& arithmetic);
AccumulatorKernel choose_accumulator(Isa isa, const PackedShape& shape);

}  // namespace spmm::cpu
