// Gustavson kernel: a CTA accumulates one column chunk of one row of C in shared memory, row of B by row of B.
#include <algorithm>

#include "kernels/block_side.cuh"
#include "kernels/blocks/record_output.cuh"
#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/row_spread.hpp"
#include "kernels/sparse/column_chunks.cuh"

namespace spmm::kernels {
namespace {

constexpr std::uint32_t kThreads = ColumnChunks::kThreads;
constexpr std::uint32_t kWarps = ColumnChunks::kWarps;
constexpr std::uint32_t kSharedBytes = kGustavsonSharedBytes;
constexpr std::uint32_t kSmallSharedBytes = 36u << 10;  // where a device gives a CTA no more than 48 KB

// Grid: one thread per split offset.
// Work: a binary search in a row of B; neighbouring threads search in the same row.
// Memory: contiguous writes; scattered reads, the upper levels of which stay in cache.
__global__ void find_split_offsets(CompressedView b, CBlocksView c_blocks, ColumnChunks chunks,
                                   std::uint32_t* split_offsets) {
  const std::uint32_t per_b_row = chunks.per_row + 1;
  for_each_item(std::uint64_t{b.num_rows} * per_b_row, [=](std::uint64_t x) {
    const auto b_row = static_cast<std::uint32_t>(x / per_b_row);
    const auto chunk = static_cast<std::uint32_t>(x % per_b_row);
    const bool is_last = chunk == chunks.per_row;
    const std::uint32_t column =
        is_last ? c_blocks.column_begin + c_blocks.num_columns : chunks.first_column(c_blocks, chunk);
    split_offsets[x] = split_offset(b, b_row, column);
  });
}

/// Flags the C blocks that are not zero.
/// Threads: all of the CTA, once all products are added.
template <std::uint32_t M, bool Fits>
__device__ void flag_c_blocks(const Accumulators<M>& sums, std::uint32_t num_c_blocks, CBlockFlags& flags) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t num_words = (num_c_blocks + 31) / 32;
  constexpr std::uint32_t kFewElements = 64;
  for (std::uint32_t w = threadIdx.x / 32; w < num_words; w += kWarps) {
    std::uint32_t word = 0;
    if constexpr (M != 0) {  // a thread per C block; lanes start at different elements, in different banks
      constexpr std::uint32_t kQuarters = M * M / 4;
      const std::uint32_t c_block = w * 32 + lane;
      bool any = false;
      for (std::uint32_t x = 0; x < kQuarters && !any && c_block < num_c_blocks; ++x) {
        any = sums.template any_of_four<Fits>(c_block, (x + (M == 4 ? lane / 2 : lane)) % kQuarters);
      }
      word = __ballot_sync(~0u, any);
    } else if (sums.elements() <= kFewElements) {  // the same, two elements at a time where their number is even
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

/// Flags the C blocks that have pairs, which is to say, all that are written where none of these is zero.
/// Threads: all of the CTA, once segments are listed and flags are clear.
__device__ void mark_columns(const Round& round, std::uint32_t count, const std::uint32_t* b_columns,
                             std::uint32_t first_column, CBlockFlags& flags) {
  constexpr std::uint32_t kAtOnce = 4;  // loads in flight
  const std::uint32_t lane = threadIdx.x % 32;
  const auto mark = [&](std::uint32_t column) {
    const std::uint32_t c_block = column - first_column;
    atomicOr(&flags.words[c_block / 32], 1u << c_block % 32);  // other lanes and warps mark the same words
  };
  for (std::uint32_t x = threadIdx.x / 32; x < count; x += kAtOnce * kWarps) {
    std::uint32_t columns[kAtOnce];
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) {
      const BSegment part = x + u * kWarps < count ? round.segments[x + u * kWarps] : BSegment{0, 0};
      columns[u] = part.first + lane < part.end ? __ldg(b_columns + part.first + lane) : kNoRow;
    }
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) {
      if (columns[u] != kNoRow) mark(columns[u]);
    }
#pragma unroll 1
    for (std::uint32_t u = 0; u < kAtOnce && x + u * kWarps < count; ++u) {  // long segments
      const BSegment part = round.segments[x + u * kWarps];
      for (std::uint32_t q = part.first + 32 + lane; q < part.end; q += 32) mark(__ldg(b_columns + q));
    }
  }
}

/// As order_records. Threads: one whole warp, once flags.before is known.
__device__ void order_in_warp(const CBlockFlags& flags, std::uint32_t num_c_blocks, std::uint16_t* order) {
  const std::uint32_t lane = threadIdx.x % 32;
  for (std::uint32_t w = 0; w * 32 < num_c_blocks; ++w) {
    const std::uint32_t word = flags.words[w];
    if ((word >> lane & 1) == 0) continue;
    order[flags.before[w] + __popc(word & ((1u << lane) - 1))] = static_cast<std::uint16_t>(w * 32 + lane);
  }
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
  write_records<M>(chunk.flags, chunk.order, m, out, RecordParts{value_at, pair_at, index_of});
}

/// Flags and numbers the C blocks and writes them, unless that is done but for the writing.
/// Threads: all of the CTA, once all products are added.
template <std::uint32_t P, std::uint32_t M, bool Fits>
__device__ void write_chunk(const Accumulators<M>& sums, std::uint32_t num_c_blocks, std::uint32_t m, bool is_ordered,
                            const ChunkOutput& chunk, const RecordOutput& out) {
  if (!is_ordered) {
    flag_c_blocks<M, Fits>(sums, num_c_blocks, chunk.flags);
    __syncthreads();  // flags are complete
    if (threadIdx.x < 32) find_output_offset(chunk.flags, num_c_blocks, out, chunk.num_ctas);
    __syncthreads();  // the output offset is known
    order_records(chunk.flags, num_c_blocks, chunk.order);
    __syncthreads();  // the order is complete
  }
  write_in_order<P, M, Fits>(sums, m, chunk, out);
}

/// Adds the products of a warp's share of a round.
/// Shapes: a_blocks [count, P, P], device: the round's blocks of A.
template <std::uint32_t P, std::uint32_t M, bool Fits>
__device__ void add_share(Round& round, Share share, std::uint32_t count, const std::uint16_t* a_blocks,
                          const OperandView& b, std::uint32_t first_column, std::uint32_t m,
                          const Accumulators<M>& sums) {
  if (share.drawn) {
    std::uint32_t next = round.draw();
    while (true) {
      const std::uint32_t x = __shfl_sync(~0u, next, 0);
      if (x >= count) return;
      next = round.draw();  // known when these products are added
      add_segment<P, M, Fits>(a_blocks + std::uint64_t{x} * P * P, b, round.segments[x], first_column, m, sums);
    }
  }
  for (std::uint32_t x = share.x; x < count && share.pairs > 0; ++x) {
    BSegment part = round.segments[x];
    part.first += share.skipped;
    share.skipped = 0;
    const std::uint32_t length = min(part.end - part.first, share.pairs);
    share.pairs -= length;
    part.end = part.first + length;
    add_segment<P, M, Fits>(a_blocks + std::uint64_t{x} * P * P, b, part, first_column, m, sums);
  }
}

// Grid: one CTA per block row of the panel and column chunk; they are handed out in result order as CTAs start.
// Work: in rounds of kThreads blocks of A: every thread finds the B segment of one block; then warps share the
// segments.
//       At the end the CTA writes the records of its chunk. Where no C block with pairs is zero and there is one round,
//       the first warp learns where they go while the others multiply; else the sums are searched before.
// Memory: B's blocks are read contiguously; sums are in shared memory, the lanes of a warp on different banks.
template <std::uint32_t P, std::uint32_t M>
__global__ void __launch_bounds__(kThreads, 2)
    mul_gustavson(GustavsonProduct product, CBlocksView c_blocks, ColumnChunks chunks, const std::uint32_t* can_be_zero,
                  RecordOutput out) {
  extern __shared__ __align__(16) std::uint32_t shared[];
  __shared__ Round round;
  __shared__ CBlockFlags flags;
  __shared__ std::uint16_t order[CBlockFlags::kMaxCBlocks];
  const CompressedView& a = product.a.index;
  const OperandView& b = product.b;
  const std::uint32_t m = M != 0 ? M : product.m;
  const std::uint32_t elements = m * m;
  if (threadIdx.x == 0) flags.cta = take_cta_number(out);
  for (std::uint32_t w = threadIdx.x; w < CBlockFlags::kMaxCBlocks / 32; w += kThreads) flags.words[w] = 0;
  __syncthreads();  // flags.cta is written
  const std::uint32_t row = c_blocks.row_begin + flags.cta / chunks.per_row;
  const std::uint32_t chunk = flags.cta % chunks.per_row;
  const std::uint32_t first_column = chunks.first_column(c_blocks, chunk);
  const std::uint32_t num_c_blocks =
      min(chunks.blocks_per_chunk, c_blocks.num_columns - (first_column - c_blocks.column_begin));
  const Accumulators<M> sums(shared, num_c_blocks, elements);
  for (std::uint32_t x = threadIdx.x; x < (num_c_blocks * c_block_words(elements) + 3) / 4; x += kThreads) {
    reinterpret_cast<uint4*>(shared)[x] = uint4{0, 0, 0, 0};
  }

  const std::uint32_t end = a.offsets[row + 1];
  const bool is_ordered = can_be_zero != nullptr && *can_be_zero == 0 && end - a.offsets[row] <= kThreads;
  const std::uint64_t num_terms = std::uint64_t{end - a.offsets[row]} * m;  // of an element at most
  const bool fits = num_terms * product.max_element <= kMaxVal / max(product.max_element, 1u);
  for (std::uint32_t first = a.offsets[row]; first < end; first += kThreads) {
    const std::uint32_t count = min(kThreads, end - first);
    BSegment segment{0, 0};
    if (threadIdx.x < count) {
      const std::uint32_t b_row = product.b_row_index[first + threadIdx.x];
      segment = find_segment(b.index, b_row, c_blocks, chunks, chunk, num_c_blocks);
    }
    const Share share = round.list(segment, count, P * P);  // has a barrier: at first, sums and flags are clear, too
    if (is_ordered) {
      mark_columns(round, count, b.index.columns, first_column, flags);
      __syncthreads();  // flags are complete
      if (threadIdx.x < 32) {
        find_output_offset(flags, num_c_blocks, out, chunks.num_ctas);
        __syncwarp();  // before is written
        order_in_warp(flags, num_c_blocks, order);
      }
    }
    const std::uint16_t* const a_blocks = product.a.values + std::uint64_t{first} * P * P;
    if (fits) {
      add_share<P, M, true>(round, share, count, a_blocks, b, first_column, m, sums);
    } else {
      add_share<P, M, false>(round, share, count, a_blocks, b, first_column, m, sums);
    }
    __syncthreads();  // segments may be overwritten; after the last round: all products are added
  }

  const ChunkOutput written{
      .flags = flags, .order = order, .first_index = uint2{out.rows[row], first_column}, .num_ctas = chunks.num_ctas};
  if (fits) {
    write_chunk<P, M, true>(sums, num_c_blocks, m, is_ordered, written, out);
  } else {
    write_chunk<P, M, false>(sums, num_c_blocks, m, is_ordered, written, out);
  }
}

/// Dynamic shared memory that a CTA may take on this device for its sums.
std::uint32_t shared_limit() {
  int device = 0;
  int bytes = 0;
  check(cudaGetDevice(&device), "device");
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "shared memory limit");
  constexpr std::uint32_t kStatic = sizeof(Round) + sizeof(CBlockFlags) + 2 * CBlockFlags::kMaxCBlocks;
  return static_cast<std::uint32_t>(bytes) >= kSharedBytes + kStatic ? kSharedBytes : kSmallSharedBytes;
}

template <std::uint32_t P, std::uint32_t M>
void launch(const GustavsonProduct& product, const CBlocksView& c_blocks, const std::uint32_t* can_be_zero,
            const RecordOutput& out, cudaStream_t stream) {
  const CompressedView& b = product.b.index;
  const std::uint32_t c_block_bytes = c_block_words(product.m * product.m) * 4;
  const std::uint32_t limit = shared_limit();
  const std::uint32_t most = std::clamp((limit - 16) / c_block_bytes, 1u, CBlockFlags::kMaxCBlocks);
  const std::uint32_t per_row = (c_blocks.num_columns - 1) / most + 1;
  const std::uint32_t width = (c_blocks.num_columns - 1) / per_row + 1;
  ColumnChunks chunks{
      .blocks_per_chunk = width, .per_row = per_row, .num_ctas = per_row * c_blocks.num_rows, .split_offsets = nullptr};
  const std::size_t shared_bytes = (std::size_t{width} * c_block_bytes + 15) / 16 * 16;
  check(cudaFuncSetAttribute(mul_gustavson<P, M>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(limit)),
        "mul_gustavson shared memory");
  const std::size_t num_states = std::size_t{chunks.num_ctas} + 1;
  check(cudaMemsetAsync(out.look_back, 0, num_states * sizeof(std::uint64_t), stream), "clear look-back states");
  // There is scratch for as many look-back states as C blocks; behind those of the CTAs it holds split offsets, unless
  // rows are few.
  const std::uint64_t num_split_offsets = std::uint64_t{b.num_rows} * (per_row + 1);
  if (num_split_offsets / 2 + chunks.num_ctas < c_blocks.num_c_blocks) {
    auto* const split_offsets = reinterpret_cast<std::uint32_t*>(out.look_back + num_states);
    find_split_offsets<<<item_grid(num_split_offsets), kItemThreads, 0, stream>>>(b, c_blocks, chunks, split_offsets);
    check_launch("find_split_offsets");  // the next one reads what this one writes
    chunks.split_offsets = split_offsets;
  }
  mul_gustavson<P, M><<<chunks.num_ctas, kThreads, shared_bytes, stream>>>(product, c_blocks, chunks, can_be_zero, out);
}

}  // namespace

void launch_mul_gustavson(const GustavsonProduct& product, const CBlocksView& c_blocks, const RecordOutput& out,
                          cudaStream_t stream) {
  launch_mul_gustavson(product, c_blocks, nullptr, out, stream);
}

void launch_mul_gustavson(const GustavsonProduct& product, const CBlocksView& c_blocks,
                          const std::uint32_t* can_be_zero, const RecordOutput& out, cudaStream_t stream) {
  if (c_blocks.num_c_blocks == 0) {
    check(cudaMemsetAsync(out.num_blocks, 0, sizeof(std::uint32_t), stream), "no records");
    return;
  }
  for_row_sides(product.m, [&](auto side, auto m) {
    launch<decltype(side)::value, decltype(m)::value>(product, c_blocks, can_be_zero, out, stream);
  });
  check_launch("mul_gustavson");
}

}  // namespace spmm::kernels
