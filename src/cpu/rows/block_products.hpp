// Products of one block of A with blocks of a row of B, as records hold them, added to sums in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "cpu/operands/pack_block.hpp"
#include "cpu/simd/kernels.hpp"

namespace spmm::cpu {

/// By the kernels of row-merge, a C block for each pair. Sides that those sum in tiles have separate loops.
/// Memory: plan::block_products_bytes(). Threads: one.
class BlockProducts {
 public:
  explicit BlockProducts(std::uint32_t m);

  /// Shapes: a = a record of A; b [count] records of B of one row, columns ascending; sums [columns from first_col on,
  /// m, m], clamped.
  void add(const std::byte* a, const std::byte* b, std::uint64_t count, std::uint32_t first_col, std::uint32_t* sums);

 private:
  void pack_a(const std::byte* a);
  void add_packed(const std::byte* b, std::uint32_t count, std::uint32_t first_col, std::uint32_t* sums);

  Isa isa_;
  PackedShape shape_;
  std::uint32_t num_at_once_;
  PackBlock pack_a_;
  PackBlock pack_b_;
  MultiplyCBlocks narrow_kernel_;
  MultiplyCBlocks wide_kernel_;
  AlignedArray<std::uint16_t> a_;           // one block, packed
  AlignedArray<std::uint32_t> a_row_sums_;  // [rows]
  std::uint32_t a_bits_ = 0;
  AlignedArray<std::uint16_t> b_;     // [num_at_once] blocks, packed
  AlignedArray<std::byte> products_;  // [num_at_once] records
  std::vector<PairRef> pairs_;        // [num_at_once + kPairsAhead]
  std::vector<CBlock> c_blocks_;      // [num_at_once]
};

}  // namespace spmm::cpu
