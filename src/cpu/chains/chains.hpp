// Products of all element types but u16 on the CPU (include/spmm/chain.hpp): the pattern of C, then the chains of its
// rows. Every instruction set and number of threads gives the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/run/run.hpp"
#include "cpu/simd/isa.hpp"
#include "spmm/chain.hpp"
#include "spmm/types.hpp"

namespace spmm::cpu {

/// Block-CSR of somebody else. Shapes: offsets [num_rows + 1]; columns [offsets[num_rows]], ascending in each row.
struct ChainIndex {
  std::uint32_t num_rows = 0;
  std::uint32_t num_columns = 0;
  const std::uint64_t* offsets = nullptr;
  const std::uint32_t* columns = nullptr;
};

/// Shapes: values [blocks, m, m] row-major; numbers [blocks]: which of values belongs to each block, null = in order.
template <class T>
struct ChainOperand {
  ChainIndex at;
  const T* values = nullptr;
  const std::uint64_t* numbers = nullptr;

  [[nodiscard]] const T* block(std::uint64_t x, std::uint64_t elements) const {
    return values + (numbers == nullptr ? x : numbers[x]) * elements;
  }
};

/// The C blocks that have a pair. Shapes: as ChainIndex.
struct ChainPattern {
  std::vector<std::uint64_t> offsets{};
  std::vector<std::uint32_t> columns{};
};

/// Memory: a bit for each column of B and thread. Errors: Interrupted.
ChainPattern find_pattern(const ChainIndex& a, const ChainIndex& b, const Run& run);

/// What a product does with C blocks that are given.
struct PatternUse {
  std::uint64_t num_pairs = 0;          // of these blocks
  std::optional<BlockIndex> missing{};  // the first block, by rows, that has a pair and is not among them
};

/// Memory: a number for each column of B and thread. Errors: Interrupted.
PatternUse check_pattern(const ChainIndex& a, const ChainIndex& b, const ChainPattern& pattern, const Run& run);

/// A product whose pattern is known; pairs outside of it are left out. Shapes: c [C blocks, m, m], zeros.
template <class T>
struct ChainProduct {
  ChainOperand<T> a;
  ChainOperand<T> b;
  std::uint32_t m = 1;
  const ChainPattern& pattern;
  typename Chain<T>::Sum* c = nullptr;
  Scaling<typename Chain<T>::Sum> scaling{};
};

/// Computes rows [begin, end) of C. Shapes: scratch [columns of B, 8], zeros, or what rows before have left.
template <class T>
using MultiplyRows = void (*)(const ChainProduct<T>& product, std::uint64_t begin, std::uint64_t end,
                              std::byte* scratch);

// Of each instruction set; null if this machine lacks it. The last two are those of x86-64.
template <class T>
MultiplyRows<T> portable_rows(std::uint32_t m);
template <class T>
MultiplyRows<T> avx2_rows(std::uint32_t m);
template <class T>
MultiplyRows<T> avx512_rows(std::uint32_t m);

/// C = A * B. Memory: a place for each column of B and thread. Errors: Interrupted.
template <class T>
void multiply_chains(const ChainProduct<T>& product, Isa isa, const Run& run);

}  // namespace spmm::cpu
