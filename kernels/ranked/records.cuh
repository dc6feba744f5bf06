// How a CTA of row-rank writes the records of its window.
#pragma once

#include "kernels/blocks/record_output.cuh"
#include "kernels/ranked/segments.cuh"

namespace spmm::kernels {

/// The records of a window: all of its C blocks, in the order of their columns.
struct WindowRecords {
  RecordPlaces to;               // of the panel
  std::uint8_t* non_zero;        // of the panel, device: if C blocks can be zero; else null
  std::uint32_t first;           // record
  std::uint32_t count;           // C blocks
  std::uint32_t block_row;       // of all of them
  const std::uint32_t* columns;  // [count], shared

  [[nodiscard]] __device__ uint2 index(std::uint32_t c_block) const { return {block_row, columns[c_block]}; }
};

/// Tells which C blocks of a window are not zero. Shapes: non_zero [count], device.
/// Threads: all of the CTA, once all products are added.
template <std::uint32_t M, bool Fits>
__device__ void flag_window(const Accumulators<M>& sums, std::uint32_t count, std::uint8_t* non_zero) {
  for (std::uint32_t c_block = threadIdx.x; c_block < count; c_block += blockDim.x) {
    bool any = false;
    for (std::uint32_t e = 0; e < sums.elements() && !any; ++e) any = sums.template value<Fits>(c_block, e) != 0;
    non_zero[c_block] = any ? 1 : 0;
  }
}

/// Writes records of side M, of 1 + M * M / 2 words of 64 bits. Each lane writes the same words of all its records: the
/// division that write_records makes for each word would be a good piece of a window's instructions.
/// Threads: all of the CTA, once all products are added.
template <std::uint32_t M, bool Fits>
__device__ void write_whole_records(const Accumulators<M>& sums, const WindowRecords& to) {
  constexpr std::uint32_t kWords = 1 + M * M / 2;
  const RecordWords<uint2> words(to.to, to.first);
  const std::uint32_t count = to.count;
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint32_t num_warps = blockDim.x / 32;
  if constexpr (kWords < 32) {  // some records at once
    constexpr std::uint32_t kAtOnce = 32 / kWords;
    const std::uint32_t o = lane % kWords;
    if (lane >= kAtOnce * kWords) return;
#pragma unroll 2
    for (std::uint32_t r = warp * kAtOnce + lane / kWords; r < count; r += num_warps * kAtOnce) {
      words.at(r, o) = o == 0 ? to.index(r) : sums.template pair<Fits>(r, o - 1);
    }
  } else {  // a record at once; what is left of each of them, a lane per record
    static_assert(kWords == 33);
#pragma unroll 2
    for (std::uint32_t r = warp; r < count; r += num_warps) {
      words.at(r, 1 + lane) = sums.template pair<Fits>(r, lane);
    }
    for (std::uint32_t r = threadIdx.x; r < count; r += blockDim.x) words.at(r, 0) = to.index(r);
  }
}

/// Writes the records of a window.
/// Threads: all of the CTA, once all products are added.
template <std::uint32_t P, std::uint32_t M, bool Fits>
__device__ void write_window(const Accumulators<M>& sums, std::uint32_t m, const WindowRecords& to) {
  if (to.non_zero != nullptr) flag_window<M, Fits>(sums, to.count, to.non_zero + to.first);
  if constexpr (M == 4 || M == 8) return write_whole_records<M, Fits>(sums, to);
  const RecordOutput out{.to = to.to};
  const auto value_at = [&](std::uint32_t c_block, std::uint32_t e) { return sums.template value<Fits>(c_block, e); };
  const auto pair_at = [&](std::uint32_t c_block, std::uint32_t x) {
    if (P != 16 || m != P) return sums.template pair<Fits>(c_block, x);
    const std::uint32_t bits = ranked_swizzle(2 * x / P % 8);
    const uint2 two = sums.template pair<Fits>(c_block, (2 * x ^ bits) / 2);
    return bits % 2 == 0 ? two : uint2{two.y, two.x};
  };
  const auto index_of = [&](std::uint32_t c_block) { return to.index(c_block); };
  const AllCBlocks all{.first = to.first, .count = to.count};
  write_records<M>(all, all, m, out, RecordContent{value_at, pair_at, index_of});
}

}  // namespace spmm::kernels
