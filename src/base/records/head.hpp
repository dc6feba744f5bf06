// Packed records: their head {i, j}, and their elements that are at the limit.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include "spmm/saturate.hpp"
#include "spmm/types.hpp"

namespace spmm {

static_assert(std::endian::native == std::endian::little, "files are little-endian and read without conversion");

/// Block index at the start of a packed record. Shapes: record [kIndexBytes or more], no alignment needed.
inline BlockIndex read_index(const std::byte* record) {
  BlockIndex index;
  std::memcpy(&index.i, record, sizeof index.i);
  std::memcpy(&index.j, record + sizeof index.i, sizeof index.j);
  return index;
}

/// Puts a block index at the start of a packed record. Shapes: record [kIndexBytes or more], no alignment needed.
inline void write_index(std::byte* record, BlockIndex index) {
  std::memcpy(record, &index.i, sizeof index.i);
  std::memcpy(record + sizeof index.i, &index.j, sizeof index.j);
}

/// Elements of whole output records that are kMaxVal. An index is never that large: a matrix has at most 2^32 - 1 block
/// rows and columns, which count from 0. Threads: any.
inline std::uint64_t count_saturated(std::span<const std::byte> records) {
  constexpr std::size_t kWordsAtOnce = 1u << 16;  // counts of 32 bits, one for each lane of a vector, do not overflow
  const std::size_t num_words = records.size() / sizeof(std::uint32_t);
  std::uint64_t num_saturated = 0;
  for (std::size_t begin = 0; begin < num_words; begin += kWordsAtOnce) {
    std::uint32_t here = 0;
    for (std::size_t x = begin; x < std::min(begin + kWordsAtOnce, num_words); ++x) {
      std::uint32_t word = 0;
      std::memcpy(&word, records.data() + x * sizeof word, sizeof word);
      here += word == kMaxVal ? 1 : 0;
    }
    num_saturated += here;
  }
  return num_saturated;
}

/// The most terms whose sum cannot reach kMaxVal, of operands without larger elements than these.
constexpr std::uint64_t sure_terms(std::uint32_t largest_a, std::uint32_t largest_b) {
  const std::uint64_t largest = std::uint64_t{largest_a} * largest_b;
  return largest == 0 ? std::numeric_limits<std::uint64_t>::max() : (kMaxVal - 1) / largest;
}

}  // namespace spmm
