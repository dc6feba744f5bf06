// Chunks of a row with many pairs, a CTA each: sums of all columns, or of the C blocks that exist.
#pragma once

#include "kernels/small/work.cuh"

namespace spmm::kernels {

/// Columns of a chunk that have a record, and the slots of their sums.
struct ChunkRecords {
  const std::uint32_t* bits;    // [num_words], shared, a bit per column
  const std::uint16_t* before;  // [num_words], shared: records of the chunk before each word
  std::uint32_t num_words;

  /// Words of a warp: [begin, end).
  [[nodiscard]] __device__ std::uint32_t begin(std::uint32_t warp) const {
    return num_words * warp / SmallLists::kWarps;
  }
  [[nodiscard]] __device__ std::uint32_t own_begin() const { return begin(threadIdx.x / 32); }
  [[nodiscard]] __device__ std::uint32_t own_end() const { return begin(threadIdx.x / 32 + 1); }
};

/// Records of a warp on their way out.
template <std::uint32_t M, bool Fits>
struct StagedRecords {
  static constexpr std::uint32_t kRecordWords = 2 + M * M;
  const SmallSums<M>& sums;
  uint2* staged;  // [kStagedRecords], shared: column, slot
  std::uint32_t block_row;
  RecordWords<std::uint32_t> to;
  std::uint32_t written = 0;
  std::uint32_t count = 0;

  /// Those of a chunk, from number `first` on.
  __device__ StagedRecords(const SmallLaunch& launch, const SmallChunk& chunk, const SmallSums<M>& of,
                           SmallLists& lists, std::uint64_t first)
      : sums(of),
        staged(lists.staged + threadIdx.x / 32 * kStagedRecords),
        block_row(launch.out.rows[chunk.row]),
        to(task_records<M>(launch, first)) {}

  /// Stages the records of the lanes with `has`, in the order of the lanes.
  /// Threads: one whole warp.
  __device__ void add(bool has, std::uint32_t column, std::uint32_t slot) {
    const std::uint32_t all = __ballot_sync(~0u, has);
    if (has) staged[count + __popc(all & ((1u << threadIdx.x % 32) - 1))] = uint2{column, slot};
    count += __popc(all);
    if (count >= 32) flush();
  }
  /// Writes what is staged. Threads: one whole warp.
  __device__ void flush() {
    __syncwarp();  // records are staged
#pragma unroll 1
    for (std::uint32_t x = threadIdx.x % 32; x < count * kRecordWords; x += 32) {
      const uint2 record = staged[x / kRecordWords];
      const std::uint32_t o = x % kRecordWords;
      to.at(written + x / kRecordWords, o) = o == 0   ? block_row
                                             : o == 1 ? record.x
                                                      : sums.template value<Fits>(record.y, o - 2);
    }
    written += count;
    count = 0;
    __syncwarp();  // staged records are written
  }
};

/// Clears words of shared memory. Values: count is a multiple of 4. Threads: all of the CTA.
__device__ inline void clear_words(std::uint32_t* words, std::uint32_t count) {
#pragma unroll 2
  for (std::uint32_t x = threadIdx.x; x < count / 4; x += SmallLists::kThreads) {
    reinterpret_cast<uint4*>(words)[x] = uint4{0, 0, 0, 0};
  }
}

/// Sums of all columns of a chunk.
template <std::uint32_t M, bool Fits>
__device__ void multiply_dense(const SmallLaunch& launch, const SmallChunk& chunk, std::uint32_t* region,
                               SmallLists& lists) {
  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t num_words = (chunk.num_columns + 31) / 32;
  const SmallSums<M> sums{.sums = region, .saturated = region + num_words * 32 * M * M};
  std::uint32_t* const bits = sums.saturated + num_words * M * M;
  clear_words(region, (num_words * (Fits ? 32 : 33) * M * M + 3) / 4 * 4);  // bits are written later
  for_pairs_of_chunk<M>(launch, chunk, true, lists,                         // has a barrier: sums are clear
                        [&](std::uint32_t column, std::uint32_t a, const SmallBlock<M>& b) {
                          sums.template add<Fits>(column - chunk.first_column, block_of_a<M>(launch, a), b);
                        });
  __syncthreads();  // all products are added
  const ChunkRecords records{.bits = bits, .before = nullptr, .num_words = num_words};
  std::uint32_t count = 0;
#pragma unroll 2
  for (std::uint32_t w = records.own_begin(); w < records.own_end(); ++w) {
    const std::uint32_t word = __ballot_sync(~0u, sums.template any<Fits>(w * 32 + lane));
    if (lane == 0) bits[w] = word;
    count += __popc(word);
  }
  if (lane == 0) lists.counts[warp] = count;
  find_task_offset(launch, lists, SmallLists::kWarps);
  StagedRecords<M, Fits> out(launch, chunk, sums, lists, std::uint64_t{lists.first} + lists.counts[warp]);
#pragma unroll 1
  for (std::uint32_t w = records.own_begin(); w < records.own_end(); ++w) {
    const std::uint32_t column = w * 32 + lane;
    out.add((bits[w] >> lane & 1) != 0, chunk.first_column + column, column);
  }
  out.flush();
}

/// Counts the bits before each word; returns all.
/// Threads: all of the CTA, once all bits are set; complete after the next barrier.
__device__ inline std::uint32_t rank_columns(const ChunkRecords& records, std::uint16_t* before, SmallLists& lists) {
  std::uint32_t count = 0;
  const auto bits_of = [&](std::uint32_t w) { return static_cast<std::uint32_t>(__popc(records.bits[w])); };
#pragma unroll 2
  for (std::uint32_t w = records.own_begin() + threadIdx.x % 32; w < records.own_end(); w += 32) count += bits_of(w);
  const CtaSum sum = cta_sum(count, lists.counts, SmallLists::kWarps);
  scan_by_warp(records.own_begin(), records.own_end(), __shfl_sync(~0u, sum.before, 0), bits_of,
               [&](std::uint32_t w, std::uint32_t rank) { before[w] = static_cast<std::uint16_t>(rank); });
  return sum.all;
}

/// Writes a warp's share of the records whose ranks lie in [begin, end), which are the slots of their sums from
/// `begin`. Threads: one whole warp.
template <std::uint32_t M, bool Fits>
__device__ void write_ranked(const SmallChunk& chunk, const ChunkRecords& records, std::uint32_t begin,
                             std::uint32_t end, StagedRecords<M, Fits> out) {
  const std::uint32_t lane = threadIdx.x % 32;
  bool is_first = true;
#pragma unroll 1
  for (std::uint32_t first = records.own_begin(); first < records.own_end(); first += 32) {
    const bool is_word = first + lane < records.own_end();
    const std::uint32_t own = is_word ? records.bits[first + lane] : 0;
    const std::uint32_t own_rank = is_word ? records.before[first + lane] : 0;
    const bool is_wanted = own != 0 && own_rank < end && own_rank + __popc(own) > begin;
#pragma unroll 1
    for (std::uint32_t left = __ballot_sync(~0u, is_wanted); left != 0; left &= left - 1) {
      const std::uint32_t from = __ffs(left) - 1;
      const std::uint32_t word = __shfl_sync(~0u, own, from);
      const std::uint32_t rank = __shfl_sync(~0u, own_rank, from) + __popc(word & ((1u << lane) - 1));
      const bool has = (word >> lane & 1) != 0 && rank >= begin && rank < end;
      if (is_first) {  // ranks of a warp follow each other
        const std::uint32_t in_lane = __ffs(__ballot_sync(~0u, has)) - 1;
        out.written = __shfl_sync(~0u, rank, in_lane);
        is_first = false;
      }
      out.add(has, chunk.first_column + (first + from) * 32 + lane, rank - begin);
    }
  }
  out.flush();
}

/// Sums of the C blocks that exist, by their rank among the columns of a chunk; as many at a time as fit.
template <std::uint32_t M, bool Fits>
__device__ void multiply_ranked(const SmallLaunch& launch, const SmallChunk& chunk, std::uint32_t* region,
                                SmallLists& lists) {
  const std::uint32_t num_words = (chunk.num_columns + 31) / 32;
  const std::uint32_t slots = launch.shape.rank_slots;
  std::uint32_t* const bits = region;
  auto* const before = reinterpret_cast<std::uint16_t*>(region + num_words);
  std::uint32_t* const memory = region + (launch.shape.rank_columns / 32 * 3 / 2 + 4) / 4 * 4;
  const SmallSums<M> sums{.sums = memory, .saturated = memory + slots * M * M};
  const ChunkRecords records{.bits = bits, .before = before, .num_words = num_words};
  const bool can_be_zero = launch.product.can_be_zero;
  clear_words(bits, (num_words + 3) / 4 * 4);
  for_pairs_of_chunk<M>(launch, chunk, can_be_zero, lists,  // has a barrier: bits are clear
                        [&](std::uint32_t column, std::uint32_t a, const SmallBlock<M>& b) {
                          if (can_be_zero && !is_small_product<M>(block_of_a<M>(launch, a), b)) return;
                          set_bit(bits, column - chunk.first_column);
                        });
  __syncthreads();  // all bits are set
  const std::uint32_t total = rank_columns(records, before, lists);
  if (threadIdx.x < 32) place_task(launch, lists, total);
#pragma unroll 1
  for (std::uint32_t begin = 0; begin < total; begin += slots) {
    const std::uint32_t end = min(total, begin + slots);
    const std::uint32_t elements = (end - begin) * M * M;
    clear_words(sums.sums, (elements + 3) / 4 * 4);
    if (!Fits) clear_words(sums.saturated, (elements / 32 + 4) / 4 * 4);
    for_pairs_of_chunk<M>(launch, chunk, true, lists,  // has a barrier: sums are clear, ranks complete
                          [&](std::uint32_t column, std::uint32_t a, const SmallBlock<M>& b) {
                            const std::uint32_t x = column - chunk.first_column;
                            const std::uint32_t word = bits[x / 32];
                            if (can_be_zero && (word >> x % 32 & 1) == 0) return;
                            const std::uint32_t rank = before[x / 32] + __popc(word & ((1u << x % 32) - 1));
                            if (rank < begin || rank >= end) return;
                            sums.template add<Fits>(rank - begin, block_of_a<M>(launch, a), b);
                          });
    __syncthreads();  // all products are added, the place of the task is known
    write_ranked<M, Fits>(chunk, records, begin, end, {launch, chunk, sums, lists, lists.first});
    __syncthreads();  // sums and staged records may be overwritten
  }
}

}  // namespace spmm::kernels
