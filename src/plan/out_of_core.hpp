// Products whose operands do not fit the memory limit at once: what a range of one may take, and what is expected of
// all. Pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "plan/choice.hpp"

namespace spmm::plan {

/// Out of core, both operands are sorted into a scratch file, and ranges of the product are computed one after the
/// other, each as a product at once within choice.limits, less a table of B's rows. Refused if less than a
/// 1,024th of both operands fits: there would be too many ranges; the refusal asks for no bytes. Values: counts are
/// expected ones; limits name the backend.
Choice decide_out_of_core(const Counts& whole, const Limits& limits);

/// Bytes of scratch files: the sorted operands, of a square one, and one of them once more while it is sorted.
inline std::uint64_t scratch_bytes(const MatrixHeader& a, const MatrixHeader& b, bool is_square = false) {
  const std::uint64_t record = input_record_bytes(a.m);
  const std::uint64_t sorted = std::uint64_t{b.num_blocks} + (is_square ? 0 : a.num_blocks);
  return std::max<std::uint64_t>(1, (sorted + std::max(a.num_blocks, b.num_blocks)) * record);
}

/// A header of a part of a matrix, or of all of it.
inline MatrixHeader with_blocks(MatrixHeader header, double num_blocks) {
  header.num_blocks = static_cast<std::uint32_t>(std::clamp(num_blocks, 0.0, double(header.num_blocks)));
  return header;
}

/// Blocks of A for which there must be room beside a slab of B.
inline std::uint64_t least_a_blocks(const MatrixHeader& a, std::uint64_t slab_blocks) {
  return std::min<std::uint64_t>(a.num_blocks, slab_blocks / 3 + 1);
}

/// Whether a range of A that meets all of B, slab by slab, moves clearly fewer blocks than shorter ranges, each with
/// what it meets: these read B again and again, slabs write C once for each, which is read and added up.
/// Values: reads = blocks of B that shorter ranges read for as many blocks of A; num_b = of B; writes = C blocks of the
/// range at most, times slabs.
inline bool slabs_pay(double reads, double num_b, double writes) {
  constexpr double kBlocksPerWrite = 4;  // blocks of B that are read and sorted while a C block is written and added up
  return reads > num_b + kBlocksPerWrite * writes;
}

/// The largest number up to `most` that fits, less a 32nd at most; 0 if 1 does not.
template <class Fits>
std::uint64_t largest_that_fits(std::uint64_t most, const Fits& fits) {
  if (most == 0 || fits(most)) return most;
  std::uint64_t low = 0;
  for (std::uint64_t high = most; high - low > low / 32 + 1;) {
    const std::uint64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

/// The least number that fits above one that does not.
template <class Fits>
std::uint64_t least_that_fits(std::uint64_t low, const Fits& fits) {
  std::uint64_t high = 2 * low + 1;
  for (; !fits(high) && high < std::uint64_t{1} << 60; high *= 2) low = high;
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace spmm::plan
