// Sums of blocks times vectors of 61-bit numbers: where --verify full spends its time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace spmm {

/// A block of a row, and the part of the vector that it is multiplied with.
struct BlockTerm {
  const std::byte* values = nullptr;      ///< [m, m] u16 or u32, no alignment needed
  const std::uint64_t* vector = nullptr;  ///< [m] below 2^61
};

/// Terms of one call at most: sums of that many products of limbs fit 64 bits.
constexpr std::uint32_t max_block_terms(std::uint32_t m) {
  constexpr std::uint32_t kMaxElements = 2048;  // of a row: u32 times 21 bits, 2^11 times
  return kMaxElements / m;
}

/// sums[r] = sum over terms and c of values[r, c] * vector[c], modulo p.
/// Shapes: terms [count], sums [m] below p. Values: count <= max_block_terms(m).
using SumBlocks = void (*)(const BlockTerm* terms, std::uint32_t count, std::uint32_t m, std::uint64_t* sums);

/// sums[r] = sum over c of values[r, c]. Shapes: values [m, m] u16, unaligned; sums [m].
using SumRows = void (*)(const std::byte* values, std::uint32_t m, std::uint64_t* sums);

/// Whether an element is kMaxVal. Shapes: values [count] u32, unaligned.
using FindSaturated = bool (*)(const std::byte* values, std::uint64_t count);

/// sums += a * b, exactly. Shapes: all [m, m]. Values: as many calls as fit 64 bits, for every file.
using AddProduct = void (*)(const std::uint16_t* a, const std::uint16_t* b, std::uint32_t m, std::uint64_t* sums);

struct BlockSums {
  SumBlocks u16 = nullptr;
  SumBlocks u32 = nullptr;
  SumRows rows_u16 = nullptr;
  FindSaturated is_saturated = nullptr;
  AddProduct add_product = nullptr;
};

/// For the processor that this runs on; the same results everywhere.
BlockSums choose_block_sums();
BlockSums portable_block_sums();
/// Null functions where the processor does not have the instructions.
BlockSums avx512_block_sums();
BlockSums avx2_block_sums();

}  // namespace spmm
