// Column chunks whose pairs are binned: what row-spread does if sums of blocks of side 8 are checked for overflow, a
// comparison for each C block instead of one for each pair and an atomic that returns what was there.
#pragma once

#include "kernels/gustavson/chunk_output.cuh"
#include "kernels/gustavson/launch.hpp"
#include "kernels/gustavson/pair_bins.cuh"

namespace spmm::kernels {

/// What a CTA that bins pairs multiplies, and where its records go.
struct BinnedChunk {
  const GustavsonProduct& product;
  const ChunkOutput& written;
  const RecordOutput& out;
  std::uint32_t first_a;  // block of A
  std::uint32_t count;    // of blocks of A
  std::uint32_t num_c_blocks;
  bool are_none_zero;
};

/// Writes the sums that bins keep as records.
/// Threads: all of the CTA, once the order is complete.
template <std::uint32_t M>
__device__ void write_bins(const PairBins& bins, std::uint32_t m, const ChunkOutput& chunk, const RecordOutput& out) {
  const auto value_at = [&](std::uint32_t c_block, std::uint32_t e) {
    return bins.pairs[c_block * PairBins::kSlots + e / m * PairBins::kSide + e % m];
  };
  const auto pair_at = [&](std::uint32_t c_block, std::uint32_t x) {
    const std::uint32_t e = 2 * x;
    return *reinterpret_cast<const uint2*>(bins.pairs + c_block * PairBins::kSlots +
                                           (M != 0 ? e : e / m * PairBins::kSide + e % m));
  };
  const auto index_of = [&](std::uint32_t c_block) {
    return uint2{chunk.first_index.x, chunk.first_index.y + c_block};
  };
  write_records<M>(chunk.flags, chunk.order, m, out, RecordContent{value_at, pair_at, index_of});
}

/// Multiplies and writes the chunk by bins. Returns false if one overflows: nothing is written.
/// Threads: all of the CTA.
template <std::uint32_t M>
__device__ bool mul_in_bins(Round& round, BSegment segment, std::uint32_t* shared, const BinnedChunk& chunk) {
  constexpr std::uint32_t kThreads = ColumnChunks::kThreads;
  CBlockFlags& flags = chunk.written.flags;
  std::uint16_t* const order = chunk.written.order;
  const PairBins bins(shared, chunk.num_c_blocks);
  round.segments[threadIdx.x] = segment;
  if (threadIdx.x == 0) round.next = 0;
  for (std::uint32_t c = threadIdx.x; c < chunk.num_c_blocks; c += kThreads) bins.counts[c] = 0;
  __syncthreads();  // segments are listed, counts are clear
  bin_pairs(round, chunk.count, chunk.product.b.index.columns, chunk.written.first_index.y, bins);
  __syncthreads();  // bins are complete
  if (__syncthreads_or(flag_bins(bins, chunk.num_c_blocks, flags)) != 0) return false;
  if (threadIdx.x < 32) count_flags(flags, chunk.num_c_blocks);
  __syncthreads();  // C blocks are counted
  order_records(flags, chunk.num_c_blocks, order);
  const std::uint32_t m = M != 0 ? M : chunk.product.m;
  const BinWork work{.bins = bins,
                     .a_words = reinterpret_cast<const std::uint32_t*>(chunk.product.a.values) +
                                std::uint64_t{chunk.first_a} * (PairBins::kSlots / 2),
                     .b_words = reinterpret_cast<const std::uint32_t*>(chunk.product.b.values),
                     .order = order,
                     .count = flags.count};
  __syncthreads();  // the order is complete, words and count are read
  if (chunk.are_none_zero) {
    if (threadIdx.x < 32) find_first_record(flags, work.count, chunk.out, chunk.written.num_ctas);
    BinRecords<M> records{.to = chunk.out.to, .m = m, .first_index = chunk.written.first_index};
    const auto ready = [&] {
      __syncthreads();  // the first warp knows where records go
      records.to.heads += std::uint64_t{flags.first} * records.to.head_stride;
      records.to.values += std::uint64_t{flags.first} * records.to.value_stride;
    };
    multiply_bins(work, &round.next, ready, [&](const TwoElements& two) { records.write(two); });
    return true;
  }
  for (std::uint32_t w = threadIdx.x; w < CBlockFlags::kMaxCBlocks / 32; w += kThreads) flags.words[w] = 0;
  const BinKeeper keeper{.bins = bins, .flags = flags};
  const auto ready = [] { __syncthreads(); };  // words are clear
  multiply_bins(work, &round.next, ready, [&](const TwoElements& two) { keeper.write(two); });
  __syncthreads();  // sums and flags are complete
  if (threadIdx.x < 32) find_output_offset(flags, chunk.num_c_blocks, chunk.out, chunk.written.num_ctas);
  __syncthreads();  // the output offset is known
  order_records(flags, chunk.num_c_blocks, order);
  __syncthreads();  // the order is complete
  write_bins<M>(bins, m, chunk.written, chunk.out);
  return true;
}

}  // namespace spmm::kernels
