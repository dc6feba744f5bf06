// How a CTA of row-spread flags the C blocks of its column chunk, puts them in order and writes them.
#pragma once

#include "kernels/blocks/record_output.cuh"
#include "kernels/gustavson/column_chunks.cuh"

namespace spmm::kernels {

/// Flags the C blocks that are not zero.
/// Threads: all of the CTA, once all products are added.
template <std::uint32_t M, bool Fits>
__device__ void flag_c_blocks(const Accumulators<M>& sums, std::uint32_t num_c_blocks, CBlockFlags& flags) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t num_words = (num_c_blocks + 31) / 32;
  constexpr std::uint32_t kFewElements = 64;
  for (std::uint32_t w = threadIdx.x / 32; w < num_words; w += ColumnChunks::kWarps) {
    std::uint32_t word = 0;
    if constexpr (M != 0) {  // a thread per C block; lanes start at different elements, in different banks
      constexpr std::uint32_t kQuarters = M * M / 4;
      const std::uint32_t c_block = w * 32 + lane;
      bool any = false;
      for (std::uint32_t x = 0; x < kQuarters && !any && c_block < num_c_blocks; ++x) {
        any = sums.template any_of_four<Fits>(c_block, (x + (M == 4 ? lane / 2 : lane)) % kQuarters);
      }
      word = __ballot_sync(~0u, any);
    } else if (sums.elements() <= kFewElements) {  // the same, two elements at a time if their number is even
      const std::uint32_t step = sums.elements() % 2 == 0 ? 2 : 1;
      const std::uint32_t end = sums.elements() / step;
      const std::uint32_t c_block = w * 32 + lane;
      std::uint32_t e = lane % end;
      bool any = false;
      for (std::uint32_t x = 0; x < end && !any && c_block < num_c_blocks; ++x) {
        if (step == 2) {
          const uint2 two = sums.template pair<Fits>(c_block, e);
          any = (two.x | two.y) != 0;
        } else {
          any = sums.template value<Fits>(c_block, e) != 0;
        }
        e = e + 1 == end ? 0 : e + 1;
      }
      word = __ballot_sync(~0u, any);
    } else {  // a warp per C block
      for (std::uint32_t t = 0; t < 32 && w * 32 + t < num_c_blocks; ++t) {
        bool any = false;
        for (std::uint32_t e = lane; e < sums.elements() && !any; e += 32) {
          any = sums.template value<Fits>(w * 32 + t, e) != 0;
        }
        if (__any_sync(~0u, any)) word |= 1u << t;
      }
    }
    if (lane == 0) flags.words[w] = word;
  }
}

/// Flags the C blocks that the pattern has. Values: first_index = block row and column of the first C block.
/// Threads: all of the CTA, once words are clear.
__device__ inline void flag_known_blocks(const RecordOutput& out, uint2 first_index, std::uint32_t num_c_blocks,
                                         CBlockFlags& flags) {
  const auto* const heads = reinterpret_cast<const uint2*>(out.known_heads);
  std::uint64_t begin = 0;
  std::uint64_t end = out.num_known;
  while (begin < end) {
    const std::uint64_t middle = begin + (end - begin) / 2;
    const uint2 head = heads[middle];
    const bool is_before = head.x < first_index.x || (head.x == first_index.x && head.y < first_index.y);
    begin = is_before ? middle + 1 : begin;
    end = is_before ? end : middle;
  }
  for (std::uint64_t x = begin + threadIdx.x; x < out.num_known; x += blockDim.x) {
    const uint2 head = heads[x];
    const std::uint32_t c_block = head.y - first_index.y;
    if (head.x != first_index.x || c_block >= num_c_blocks) break;
    atomicOr(&flags.words[c_block / 32], 1u << c_block % 32);  // other threads flag in the same word
  }
}

/// As order_records. Threads: one whole warp, once flags.before is known.
__device__ inline void order_in_warp(const CBlockFlags& flags, std::uint32_t num_c_blocks, std::uint16_t* order) {
  const std::uint32_t lane = threadIdx.x % 32;
  for (std::uint32_t w = 0; w * 32 < num_c_blocks; ++w) {
    const std::uint32_t word = flags.words[w];
    if ((word >> lane & 1) == 0) continue;
    order[flags.before[w] + __popc(word & ((1u << lane) - 1))] = static_cast<std::uint16_t>(w * 32 + lane);
  }
}

/// Learns where the records of the flagged C blocks go, and puts them in order.
/// Threads: the first warp, once flags are complete.
__device__ inline void order_early(CBlockFlags& flags, std::uint32_t num_c_blocks, const RecordOutput& out,
                                   std::uint32_t num_ctas, std::uint16_t* order) {
  find_output_offset(flags, num_c_blocks, out, num_ctas);
  __syncwarp();  // before is written
  order_in_warp(flags, num_c_blocks, order);
}

/// What a CTA needs to write its chunk.
struct ChunkOutput {
  CBlockFlags& flags;
  std::uint16_t* order;  // [num_c_blocks], shared
  uint2 first_index;     // block row and column of the first C block
  std::uint32_t num_ctas;
};

/// Writes the sums as records.
/// Threads: all of the CTA, once all products are added and the order is complete.
template <std::uint32_t P, std::uint32_t M, bool Fits>
__device__ void write_in_order(const Accumulators<M>& sums, std::uint32_t m, const ChunkOutput& chunk,
                               const RecordOutput& out) {
  const auto value_at = [&](std::uint32_t c_block, std::uint32_t e) { return sums.template value<Fits>(c_block, e); };
  const auto pair_at = [&](std::uint32_t c_block, std::uint32_t x) {
    if (P % 32 != 0 || m != P) return sums.template pair<Fits>(c_block, x);
    const std::uint32_t bits = row_swizzle(2 * x / P);
    const uint2 two = sums.template pair<Fits>(c_block, (2 * x ^ bits) / 2);
    return bits % 2 == 0 ? two : uint2{two.y, two.x};
  };
  const auto index_of = [&](std::uint32_t c_block) {
    return uint2{chunk.first_index.x, chunk.first_index.y + c_block};
  };
  write_records<M>(chunk.flags, chunk.order, m, out, RecordContent{value_at, pair_at, index_of});
}

/// Flags and numbers the C blocks and writes them, unless that is done but for the writing.
/// Threads: all of the CTA, once all products are added.
template <std::uint32_t P, std::uint32_t M, bool Fits>
__device__ void write_chunk(const Accumulators<M>& sums, std::uint32_t num_c_blocks, std::uint32_t m, bool is_ordered,
                            const ChunkOutput& chunk, const RecordOutput& out) {
  if (!is_ordered) {
    if (out.known_heads != nullptr) {
      flag_known_blocks(out, chunk.first_index, num_c_blocks, chunk.flags);
    } else {
      flag_c_blocks<M, Fits>(sums, num_c_blocks, chunk.flags);
    }
    __syncthreads();  // flags are complete
    if (threadIdx.x < 32) find_output_offset(chunk.flags, num_c_blocks, out, chunk.num_ctas);
    __syncthreads();  // the output offset is known
    order_records(chunk.flags, num_c_blocks, chunk.order);
    __syncthreads();  // the order is complete
  }
  write_in_order<P, M, Fits>(sums, m, chunk, out);
}

}  // namespace spmm::kernels
