// The pairs of a column chunk in bins, one for each C block, so that a warp sums a C block in registers and writes it
// at once.
#pragma once

#include "kernels/blocks/record_output.cuh"
#include "kernels/byte_mma.cuh"
#include "kernels/gustavson/column_chunks.cuh"

namespace spmm::kernels {

/// A bin for each C block of a chunk, in shared memory; blocks of side 8.
/// Layout: a pair is the number of its block of A, from the row's first one on, over kBBits bits of that of its block
/// of B; pairs of a bin are in any order. Where C blocks can be zero, their sums lie here at last.
struct PairBins {
  static constexpr std::uint32_t kSide = 8;
  static constexpr std::uint32_t kSlots = kSide * kSide;  // pairs of a bin at most
  static constexpr std::uint32_t kBBits = 23;
  static constexpr std::uint32_t kMaxBBlocks = 1u << kBBits;
  static constexpr std::uint32_t kMaxABlocks = 1u << (32 - kBBits);
  static_assert(ColumnChunks::kThreads <= kMaxABlocks);

  std::uint32_t* pairs;   // [num_c_blocks, kSlots], shared, 16-byte aligned
  std::uint32_t* counts;  // [num_c_blocks], shared: pairs, also if there are more than slots

  __device__ PairBins(std::uint32_t* shared, std::uint32_t num_c_blocks)
      : pairs(shared), counts(shared + num_c_blocks * kSlots) {}

  /// First of the four slots from `slot` on, a multiple of four. Bins begin at different slots: else the first pairs of
  /// all would lie in the same bank.
  [[nodiscard]] __device__ const std::uint32_t* slots(std::uint32_t c_block, std::uint32_t slot) const {
    return pairs + place(c_block, slot);
  }
  __device__ void add(std::uint32_t c_block, std::uint32_t a_block, std::uint32_t b_block) const {
    const std::uint32_t slot = atomicAdd(&counts[c_block], 1u);  // other lanes and warps add to the same bin
    if (slot < kSlots) pairs[place(c_block, slot)] = a_block << kBBits | b_block;
  }
  [[nodiscard]] __device__ static std::uint32_t a_block(std::uint32_t pair) { return pair >> kBBits; }
  [[nodiscard]] __device__ static std::uint32_t b_block(std::uint32_t pair) { return pair & (kMaxBBlocks - 1); }

 private:
  [[nodiscard]] __device__ static std::uint32_t place(std::uint32_t c_block, std::uint32_t slot) {
    return c_block * kSlots + ((slot + c_block * 4) & (kSlots - 1));
  }
};

/// Bins the pairs of the listed segments.
/// Threads: all of the CTA, once segments are listed and counts are clear.
__device__ inline void bin_pairs(const Round& round, std::uint32_t count, const std::uint32_t* b_columns,
                                 std::uint32_t first_column, const PairBins& bins) {
  constexpr std::uint32_t kAtOnce = 4;  // loads in flight
  constexpr std::uint32_t kWarps = ColumnChunks::kWarps;
  const std::uint32_t lane = threadIdx.x % 32;
  for (std::uint32_t x = threadIdx.x / 32; x < count; x += kAtOnce * kWarps) {
    std::uint32_t columns[kAtOnce];
    std::uint32_t blocks[kAtOnce];
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) {
      const BSegment part = x + u * kWarps < count ? round.segments[x + u * kWarps] : BSegment{0, 0};
      blocks[u] = part.first + lane;
      columns[u] = blocks[u] < part.end ? __ldg(b_columns + blocks[u]) : kNoRow;
    }
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) {
      if (columns[u] != kNoRow) bins.add(columns[u] - first_column, x + u * kWarps, blocks[u]);
    }
#pragma unroll 1
    for (std::uint32_t u = 0; u < kAtOnce && x + u * kWarps < count; ++u) {  // long segments
      const BSegment part = round.segments[x + u * kWarps];
      for (std::uint32_t b = part.first + 32 + lane; b < part.end; b += 32) {
        bins.add(__ldg(b_columns + b) - first_column, x + u * kWarps, b);
      }
    }
  }
}

/// Flags the C blocks that have pairs. Returns whether a bin of the calling thread has more of them than slots.
/// Threads: all of the CTA, once pairs are binned.
__device__ inline bool flag_bins(const PairBins& bins, std::uint32_t num_c_blocks, CBlockFlags& flags) {
  const std::uint32_t lane = threadIdx.x % 32;
  bool is_over = false;
  for (std::uint32_t w = threadIdx.x / 32; w * 32 < num_c_blocks; w += ColumnChunks::kWarps) {
    const std::uint32_t c_block = w * 32 + lane;
    const std::uint32_t count = c_block < num_c_blocks ? bins.counts[c_block] : 0;
    is_over = is_over || count > PairBins::kSlots;
    const std::uint32_t word = __ballot_sync(~0u, count != 0);
    if (lane == 0) flags.words[w] = word;
  }
  return is_over;
}

/// Sums of products of bytes, low and high ones of B apart. Words of A and B are two elements, their low and high bytes
/// in turn. Rows of A lie in the first operand twice: as they are, and with the bytes of each element exchanged.
struct BinSums {
  std::uint32_t low[4] = {};   // low(B) with low(A) twice, then with high(A)
  std::uint32_t high[4] = {};  // high(B) with high(A), then with low(A)

  /// Adds the products of a word for each half of K.
  /// Threads: one whole warp.
  __device__ void add(uint2 a, uint2 b) {
    const std::uint32_t rows[4] = {a.x, __byte_perm(a.x, 0, 0x2301), a.y, __byte_perm(a.y, 0, 0x2301)};
    mma_u8_16x8x32(low, rows, b.x & 0x00FF'00FF, b.y & 0x00FF'00FF);
    mma_u8_16x8x32(high, rows, b.x & 0xFF00'FF00, b.y & 0xFF00'FF00);
  }
  /// A lane's two sums, 2^32 - 1 at most. Values: up to 2^15 products of elements each.
  [[nodiscard]] __device__ uint2 values() const { return {value(0), value(1)}; }

 private:
  [[nodiscard]] __device__ std::uint32_t value(std::uint32_t e) const {
    const std::uint64_t sum =
        (std::uint64_t{high[e]} << 16) + ((std::uint64_t{low[2 + e]} + high[2 + e]) << 8) + low[e];
    return sum > kMaxVal ? kMaxVal : static_cast<std::uint32_t>(sum);
  }
};

/// What the warps of a CTA multiply.
struct BinWork {
  PairBins bins;
  const std::uint32_t* a_words;  // of the row's first block of A, device
  const std::uint32_t* b_words;  // of B's first block, device
  const std::uint16_t* order;    // [count], shared: C blocks
  std::uint32_t count;
};

/// Two elements of a C block.
struct TwoElements {
  std::uint32_t number;  // of the C block in the order
  std::uint32_t c_block;
  std::uint32_t row;
  std::uint32_t column;
  uint2 values;
};

/// Multiplies the pairs of the C blocks, one of these and two pairs at a time: calls ready() before the first result,
/// and write(TwoElements) for what each lane has of each C block.
/// Layout: lane -> row lane / 4, columns 2 * (lane % 4) and the next.
///
///   first operand                                   K 16h to 16h + 15, h = 0, 1
///   row r             row r of A as it is           pair h
///   row 8 + r         the same, bytes exchanged
///   second operand, column x: column x of B         the same
///
/// Threads: one whole warp, which calls ready and write as a whole.
template <class Ready, class Write>
__device__ void multiply_bins(const BinWork& work, std::uint32_t* next, const Ready& ready, const Write& write) {
  constexpr std::uint32_t kGroup = 8;  // pairs whose loads are in flight
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t* const a_words = as_base(work.a_words + lane);
  const std::uint32_t* const b_words = as_base(work.b_words + lane);
  const PairBins& bins = work.bins;
  bool is_ready = false;
  while (true) {
    const std::uint32_t number = __shfl_sync(~0u, draw_number(next), 0);
    if (number >= work.count) break;
    const std::uint32_t c_block = work.order[number];
    const std::uint32_t count = bins.counts[c_block];
    BinSums sums;
#pragma unroll 1
    for (std::uint32_t done = 0; done < count; done += kGroup) {
      std::uint32_t a[kGroup];
      std::uint32_t b[kGroup];
#pragma unroll
      for (std::uint32_t g = 0; g < kGroup; g += 4) {
        const uint4 four = *reinterpret_cast<const uint4*>(bins.slots(c_block, done + g));
        const std::uint32_t pairs[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (std::uint32_t s = 0; s < 4; ++s) {
          a[g + s] = b[g + s] = 0;
          if (done + g + s >= count) continue;
          b[g + s] = __ldg(b_words + std::uint64_t{bins.b_block(pairs[s])} * 32);
          a[g + s] = __ldg(a_words + std::uint64_t{bins.a_block(pairs[s])} * 32);
        }
      }
#pragma unroll
      for (std::uint32_t g = 0; g < kGroup; g += 2) {
        if (done + g < count) sums.add(uint2{a[g], a[g + 1]}, uint2{b[g], b[g + 1]});
      }
    }
    if (!is_ready) ready();
    is_ready = true;
    write(TwoElements{number, c_block, lane / 4, lane % 4 * 2, sums.values()});
  }
  if (!is_ready) ready();
}

/// Writes records whose places are known, as they are multiplied. M: m = 8, or 0 and known at run time.
template <std::uint32_t M>
struct BinRecords {
  RecordPlaces to;  // from the CTA's first one on
  std::uint32_t m;
  uint2 first_index;

  /// Threads: one whole warp. Memory: neighbouring lanes write neighbouring words.
  __device__ void write(const TwoElements& two) const {
    if (threadIdx.x % 32 == 0) {
      write_two(to.heads + two.number * to.head_stride, uint2{first_index.x, first_index.y + two.c_block}, true);
    }
    if (M != 0 || (two.row < m && two.column < m)) {
      write_two(to.values + two.number * to.value_stride + two.row * m + two.column, two.values, two.column + 1 < m);
    }
  }

 private:
  __device__ void write_two(std::uint32_t* at, uint2 two, bool has_second) const {
    if (M != 0 || m % 2 == 0) {
      *reinterpret_cast<uint2*>(at) = two;
    } else {
      at[0] = two.x;
      if (has_second) at[1] = two.y;
    }
  }
};

/// Keeps sums in the bins that their pairs have left, and flags C blocks that are not zero.
struct BinKeeper {
  const PairBins& bins;
  CBlockFlags& flags;

  /// Threads: one whole warp.
  __device__ void write(const TwoElements& two) const {
    const bool is_zero = __all_sync(~0u, (two.values.x | two.values.y) == 0);
    if (threadIdx.x % 32 == 0 && !is_zero) {
      atomicOr(&flags.words[two.c_block / 32], 1u << two.c_block % 32);  // other warps flag in the same word
    }
    std::uint32_t* const sums = bins.pairs + two.c_block * PairBins::kSlots;
    *reinterpret_cast<uint2*>(sums + two.row * PairBins::kSide + two.column) = two.values;
  }
};

}  // namespace spmm::kernels
