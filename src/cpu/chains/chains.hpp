// Products of all element types but u16 on the CPU (include/spmm/chain.hpp). Every instruction set and number of
// threads gives the same bits.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "base/run/run.hpp"
#include "cpu/rows/range.hpp"
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

/// A product; its columns are those of B. Shapes: row_pairs [rows of A], of count_pairs().
template <class T>
struct ChainProduct {
  ChainOperand<T> a;
  ChainOperand<T> b;
  std::uint32_t m = 1;
  std::span<const std::uint64_t> row_pairs{};
  const ChainIndex* c = nullptr;  // the blocks that C has, others are left out; null: those that have a pair
  Scaling<typename Chain<T>::Sum> scaling{};
  const std::atomic<bool>* cancel = nullptr;  // may be null
};

/// What a thread needs while it computes ranges of C. Between two ranges all bits and places are 0.
struct ChainScratch {
  explicit ChainScratch(std::uint32_t num_columns);
  static std::uint64_t bytes(std::uint32_t num_columns);
  bool must_stop(const std::atomic<bool>* cancel) {
    is_cancelled = is_cancelled || (cancel != nullptr && cancel->load(std::memory_order_relaxed));
    return is_cancelled;
  }

  AlignedArray<std::uint64_t> bits;           // [columns of B / 64 + 1] columns of the row
  AlignedArray<std::uint64_t> words;          // [columns of B / 4096 + 1] which of `bits` are not 0
  AlignedArray<std::uint64_t> places;         // [columns of B] sums of blocks of side 1, or places of blocks (u32)
  std::vector<std::uint64_t> row_blocks;      // [rows of the range] C blocks
  bool is_cancelled = false;                  // the range did not come to its end
  std::uint64_t pairs_outside = 0;            // of blocks that C lacks,
  std::uint64_t outside = ~std::uint64_t{0};  // the first of these: row << 32 | column
};

/// Sorts columns and leaves each once. Returns their end.
std::uint32_t* sort_columns(std::uint32_t* begin, std::uint32_t* end);

/// Computes a range of C unless the product is cancelled. Returns the number of its blocks.
/// Shapes: columns [blocks]; values [blocks, m, m].
template <class T>
using MultiplyRange = std::uint64_t (*)(const ChainProduct<T>& product, const Range& range, ChainScratch& scratch,
                                        std::uint32_t* columns, typename Chain<T>::Sum* values);

// Of each instruction set; null if this machine lacks it. The last two are those of x86-64.
template <class T>
MultiplyRange<T> portable_range(std::uint32_t m);
template <class T>
MultiplyRange<T> avx2_range(std::uint32_t m);
template <class T>
MultiplyRange<T> avx512_range(std::uint32_t m);

/// Pairs of each row; with `c` and the blocks that C has there. Errors: Interrupted.
std::vector<std::uint64_t> count_pairs(const ChainIndex& a, const ChainIndex& b, const ChainIndex* c, const Run& run);

/// Host memory of multiply_chains().
struct ChainMemory {
  unsigned num_threads = 1;
  std::uint64_t num_buffers = 0;
  std::uint64_t buffer_blocks = 0;  // of C, in each
  std::uint64_t bytes = 0;          // of all this
};

/// As much as makes it fast, within room_bytes if they suffice. Values: block_bytes = of elements of a C block.
ChainMemory chain_memory(std::uint32_t num_columns, std::uint64_t block_bytes, std::uint64_t most_blocks,
                         unsigned num_threads, std::uint64_t room_bytes);

/// Where C goes. Shapes: as BsrMatrix; indptr [rows + 1], others are empty and have room for most_blocks.
template <class T>
struct ChainResult {
  std::vector<std::int64_t>& indptr;
  std::vector<std::int64_t>& indices;
  std::vector<T>& data;
  std::uint64_t most_blocks = 0;
  std::span<const std::uint32_t> names{};  // [columns of B] columns of C; empty: the same
};

/// What a product does with blocks that are given.
struct PatternUse {
  std::uint64_t num_pairs = 0;          // of blocks that C has
  std::optional<BlockIndex> missing{};  // the first block, by rows, that has a pair and that C lacks
};

/// C = A * B. Errors: OutOfMemory if C has more than most_blocks; Interrupted.
template <class T>
PatternUse multiply_chains(ChainProduct<T> product, const ChainResult<ProductOf<T>>& result, const ChainMemory& memory,
                           Isa isa, const Run& run);

}  // namespace spmm::cpu
