// For rows that meet many columns: a CTA keeps a stretch of result blocks of one block row in shared memory.
#include <algorithm>

#include "kernels/blocks/record_output.cuh"
#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/launch.hpp"
#include "kernels/sparse/gustavson.cuh"

namespace spmm::kernels {
namespace {

constexpr std::uint32_t kThreads = 512;
constexpr std::uint32_t kWarps = kThreads / 32;
constexpr std::uint32_t kSharedBytes = 100u << 10;      // two CTAs per multiprocessor of 228 KB
constexpr std::uint32_t kSmallSharedBytes = 41u << 10;  // where a device gives a CTA no more than 48 KB

/// The stretches of one launch, in result order.
struct ColumnChunks {
  std::uint32_t blocks_per_chunk;
  std::uint32_t per_row;
  std::uint32_t num_ctas;
  const std::uint32_t* split_offsets;  // [lines of B, per_row + 1], device: first block of each line in each stretch,
                                       // and the end; null = every CTA searches for itself

  /// First column of a stretch.
  [[nodiscard]] __device__ std::uint32_t first_column(const CBlocksView& c_blocks, std::uint32_t chunk) const {
    return c_blocks.column_begin + chunk * blocks_per_chunk;
  }
};

// Grid: one thread per border. Memory: neighbours search in the same line.
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

/// The blocks of B's line `slot` that lie in a stretch of num_c_blocks columns.
__device__ inline BSegment find_segment(const CompressedView& b, std::uint32_t b_row, const CBlocksView& c_blocks,
                                        const ColumnChunks& chunks, std::uint32_t chunk, std::uint32_t num_c_blocks) {
  if (b_row == kNoRow) return {0, 0};
  if (chunks.split_offsets != nullptr) {
    const std::uint32_t* const offsets = chunks.split_offsets + std::uint64_t{b_row} * (chunks.per_row + 1) + chunk;
    return {offsets[0], offsets[1]};
  }
  const std::uint32_t column = chunks.first_column(c_blocks, chunk);
  return {split_offset(b, b_row, column), split_offset(b, b_row, column + num_c_blocks)};
}

/// Whichever way of adding is made for M.
template <std::uint32_t M, bool Fits>
__device__ void add_block(const std::uint16_t* a_block, const OperandView& b, BSegment segment,
                          std::uint32_t first_column, std::uint32_t m, const Accumulators<M>& sums) {
  if constexpr (M == 4) {
    add_segment_4<Fits>(a_block, b, segment, first_column, sums);
  } else if constexpr (M == 8) {
    add_segment_8<Fits>(a_block, b, segment, first_column, sums);
  } else if constexpr (M >= 16) {
    add_segment_wide<M, Fits>(a_block, b, segment, first_column, sums);
  } else {
    add_segment_any_m(a_block, b, segment, first_column, m, sums);
  }
}

/// Flags the C blocks that are not zero. All threads of the CTA call it.
template <std::uint32_t M, bool Fits>
__device__ void flag_c_blocks(const Accumulators<M>& sums, std::uint32_t num_c_blocks, CBlockFlags& flags) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t num_words = (num_c_blocks + 31) / 32;
  for (std::uint32_t w = threadIdx.x / 32; w < num_words; w += kWarps) {
    std::uint32_t word = 0;
    if constexpr (M == 4 || M == 8) {  // a thread per C block; lanes start at different elements, in different banks
      constexpr std::uint32_t kQuarters = M * M / 4;
      const std::uint32_t c_block = w * 32 + lane;
      bool any = false;
      for (std::uint32_t x = 0; x < kQuarters && !any && c_block < num_c_blocks; ++x) {
        any = sums.template any_of_four<Fits>(c_block, (x + (M == 4 ? lane / 2 : lane)) % kQuarters);
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

/// The sums become records. All threads of the CTA call it. Shapes: order [num_c_blocks], shared.
template <std::uint32_t M, bool Fits>
__device__ void deliver(const Accumulators<M>& sums, std::uint32_t num_c_blocks, std::uint32_t m, uint2 first_index,
                        std::uint32_t num_ctas, CBlockFlags& flags, std::uint16_t* order, const RecordOutput& out) {
  flag_c_blocks<M, Fits>(sums, num_c_blocks, flags);
  __syncthreads();  // flags are complete
  if (threadIdx.x < 32) find_output_offset(flags, num_c_blocks, out, num_ctas);
  __syncthreads();  // the place is known
  order_records(flags, num_c_blocks, order);
  __syncthreads();  // the order is complete
  const auto value_at = [&](std::uint32_t c_block, std::uint32_t x) {
    if constexpr (M != 0) {
      return sums.template pair<Fits>(c_block, x);
    } else {
      return sums.template value<Fits>(c_block, x);
    }
  };
  const auto index_of = [&](std::uint32_t c_block) { return uint2{first_index.x, first_index.y + c_block}; };
  write_records<M>(flags, order, m, out, value_at, index_of);
}

/// What a warp takes of a round: the meetings x, x + step, ..., without the first `skipped` pairs, `pairs` at most.
struct Share {
  std::uint32_t x;
  std::uint32_t step;
  std::uint32_t skipped;
  std::uint32_t pairs;
};

/// The meetings of a round, in shared memory.
struct Round {
  BSegment segments[kThreads];   // of one block of A each
  std::uint32_t ends[kThreads];  // pairs up to the end of each meeting
  std::uint32_t of_warp[kWarps];

  /// Lists the calling thread's meeting. All threads of the CTA call it; at the end all meetings are listed. Warps take
  /// them in turn, or, where few blocks of A meet many of B, the same number of pairs each.
  /// Shapes: count = meetings of the round, elements = of a block.
  __device__ Share list(BSegment segment, std::uint32_t count, std::uint32_t elements) {
    constexpr std::uint32_t kFewSegments = 4 * kWarps;
    constexpr std::uint32_t kLongElements = 1024;  // of a meeting's blocks: sharing out costs two barriers more
    const std::uint32_t warp = threadIdx.x / 32;
    const std::uint32_t lane = threadIdx.x % 32;
    const std::uint32_t length = segment.end - segment.first;
    segments[threadIdx.x] = segment;
    const bool is_long = count < kFewSegments && length * elements >= kLongElements;
    if (__syncthreads_or(is_long) == 0) return {.x = warp, .step = kWarps, .skipped = 0, .pairs = ~0u};  // in turn
    const std::uint32_t through = warp_sums(length);
    if (lane == 31) of_warp[warp] = through;
    __syncthreads();  // pairs of all warps are known
    const std::uint32_t warp_end = warp_sums(lane < kWarps ? of_warp[lane] : 0);
    const std::uint32_t total = __shfl_sync(~0u, warp_end, 31);
    const std::uint32_t before = __shfl_sync(~0u, warp_end, warp == 0 ? 0 : warp - 1);
    ends[threadIdx.x] = (warp == 0 ? 0 : before) + through;
    __syncthreads();                                    // ends are there
    const std::uint32_t first = total * warp / kWarps;  // kThreads * kMaxTiles * kWarps fit 32 bits
    const std::uint32_t group = __ffs(__ballot_sync(~0u, warp_end > first)) - 1;  // of 32 meetings
    const std::uint32_t x = group * 32 + __ffs(__ballot_sync(~0u, ends[group * 32 + lane] > first)) - 1;
    return {.x = x,
            .step = 1,
            .skipped = first - (ends[x] - (segments[x].end - segments[x].first)),
            .pairs = total * (warp + 1) / kWarps - first};
  }

 private:
  /// Sum of the values of this lane and those before it.
  __device__ static std::uint32_t warp_sums(std::uint32_t value) {
#pragma unroll
    for (std::uint32_t step = 1; step < 32; step *= 2) {
      const std::uint32_t left = __shfl_up_sync(~0u, value, step);
      if (threadIdx.x % 32 >= step) value += left;
    }
    return value;
  }
};

/// Adds the products of a warp's share of a round. Shapes: a_blocks [count, m, m], device: the round's blocks of A.
template <std::uint32_t M, bool Fits>
__device__ void add_share(const Round& round, Share share, std::uint32_t count, const std::uint16_t* a_blocks,
                          const OperandView& b, std::uint32_t first_column, std::uint32_t m,
                          const Accumulators<M>& sums) {
  for (std::uint32_t x = share.x; x < count && share.pairs > 0; x += share.step) {
    BSegment part = round.segments[x];
    part.first += share.skipped;
    share.skipped = 0;
    const std::uint32_t length = min(part.end - part.first, share.pairs);
    share.pairs -= length;
    part.end = part.first + length;
    add_block<M, Fits>(a_blocks + std::uint64_t{x} * sums.elements(), b, part, first_column, m, sums);
  }
}

// Grid: one CTA per block row of the panel and stretch of columns; places are handed out in result order.
// Work: every thread finds the blocks of B that one block of A meets in the stretch; then warps share these meetings.
//       At the end the CTA writes the records of its stretch.
// Memory: B's blocks are read contiguously; sums live in shared memory, the lanes of a warp on different banks.
template <std::uint32_t M>
__global__ void __launch_bounds__(kThreads, 2)
    mul_gustavson(OperandView a, OperandView b, const std::uint32_t* b_row_index, CBlocksView c_blocks,
                  ColumnChunks chunks, std::uint32_t run_time_m, std::uint32_t max_element, RecordOutput out) {
  extern __shared__ __align__(16) std::uint32_t shared[];
  __shared__ Round round;
  __shared__ CBlockFlags flags;
  const std::uint32_t m = M != 0 ? M : run_time_m;
  const std::uint32_t elements = m * m;
  if (threadIdx.x == 0) flags.cta = take_cta_number(out);
  __syncthreads();  // everyone knows the place
  const std::uint32_t row = c_blocks.row_begin + flags.cta / chunks.per_row;
  const std::uint32_t chunk = flags.cta % chunks.per_row;
  const std::uint32_t first_column = chunks.first_column(c_blocks, chunk);
  const std::uint32_t num_c_blocks =
      min(chunks.blocks_per_chunk, c_blocks.num_columns - (first_column - c_blocks.column_begin));
  const Accumulators<M> sums(shared, num_c_blocks, elements);
  for (std::uint32_t x = threadIdx.x; x < (num_c_blocks * c_block_words(elements) + 3) / 4; x += kThreads) {
    reinterpret_cast<uint4*>(shared)[x] = uint4{0, 0, 0, 0};
  }

  const std::uint32_t end = a.index.offsets[row + 1];
  const std::uint64_t num_terms = std::uint64_t{end - a.index.offsets[row]} * m;  // of an element at most
  const bool fits = num_terms * max_element <= kMaxVal / max(max_element, 1u);
  for (std::uint32_t first = a.index.offsets[row]; first < end; first += kThreads) {
    const std::uint32_t count = min(kThreads, end - first);
    BSegment segment{0, 0};
    if (threadIdx.x < count) {
      segment = find_segment(b.index, b_row_index[first + threadIdx.x], c_blocks, chunks, chunk, num_c_blocks);
    }
    const Share share = round.list(segment, count, elements);  // in the first round, all sums are zero behind it
    const std::uint16_t* const a_blocks = a.values + std::uint64_t{first} * elements;
    if (fits) {
      add_share<M, true>(round, share, count, a_blocks, b, first_column, m, sums);
    } else {
      add_share<M, false>(round, share, count, a_blocks, b, first_column, m, sums);
    }
    __syncthreads();  // meetings may be replaced; after the last round: all products are in
  }

  static_assert(sizeof round.segments >= CBlockFlags::kMaxCBlocks * sizeof(std::uint16_t));
  auto* const order = reinterpret_cast<std::uint16_t*>(round.segments);  // not needed any more
  const uint2 first_index{out.rows[row], first_column};
  if (fits) {
    deliver<M, true>(sums, num_c_blocks, m, first_index, chunks.num_ctas, flags, order, out);
  } else {
    deliver<M, false>(sums, num_c_blocks, m, first_index, chunks.num_ctas, flags, order, out);
  }
}

/// Dynamic shared memory that a CTA may take on this device for its sums.
std::uint32_t shared_limit() {
  int device = 0;
  int bytes = 0;
  check(cudaGetDevice(&device), "device");
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "shared memory limit");
  constexpr std::uint32_t kStatic = sizeof(Round) + sizeof(CBlockFlags);
  return static_cast<std::uint32_t>(bytes) >= kSharedBytes + kStatic ? kSharedBytes : kSmallSharedBytes;
}

template <std::uint32_t M>
void launch(const OperandView& a, const OperandView& b, const std::uint32_t* b_row_index, const CBlocksView& c_blocks,
            std::uint32_t m, std::uint32_t max_element, const RecordOutput& out, cudaStream_t stream) {
  const std::uint32_t c_block_bytes = c_block_words(m * m) * 4;
  const std::uint32_t limit = shared_limit();
  const std::uint32_t most = std::clamp((limit - 16) / c_block_bytes, 1u, CBlockFlags::kMaxCBlocks);
  const std::uint32_t per_row = (c_blocks.num_columns - 1) / most + 1;
  const std::uint32_t width = (c_blocks.num_columns - 1) / per_row + 1;
  ColumnChunks chunks{
      .blocks_per_chunk = width, .per_row = per_row, .num_ctas = per_row * c_blocks.num_rows, .split_offsets = nullptr};
  const std::size_t shared_bytes = (std::size_t{width} * c_block_bytes + 15) / 16 * 16;
  check(cudaFuncSetAttribute(mul_gustavson<M>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(limit)),
        "mul_gustavson shared memory");
  check(cudaMemsetAsync(out.look_back, 0, (std::size_t{chunks.num_ctas} + 1) * sizeof(std::uint64_t), stream),
        "clear look-back states");
  // States are as many as C blocks; behind those of the CTAs there is room for borders, unless rows are few.
  const std::uint64_t num_split_offsets = std::uint64_t{b.index.num_rows} * (per_row + 1);
  if (num_split_offsets / 2 + chunks.num_ctas < c_blocks.num_c_blocks) {
    auto* const split_offsets = reinterpret_cast<std::uint32_t*>(out.look_back + std::size_t{chunks.num_ctas} + 1);
    find_split_offsets<<<item_grid(num_split_offsets), kItemThreads, 0, stream>>>(b.index, c_blocks, chunks,
                                                                                  split_offsets);
    chunks.split_offsets = split_offsets;
  }
  mul_gustavson<M>
      <<<chunks.num_ctas, kThreads, shared_bytes, stream>>>(a, b, b_row_index, c_blocks, chunks, m, max_element, out);
}

}  // namespace

void launch_mul_gustavson(const OperandView& a, const OperandView& b, const std::uint32_t* b_row_index,
                          const CBlocksView& c_blocks, std::uint32_t m, std::uint32_t max_element,
                          const RecordOutput& out, cudaStream_t stream) {
  if (c_blocks.num_c_blocks == 0) {
    check(cudaMemsetAsync(out.num_blocks, 0, sizeof(std::uint32_t), stream), "no records");
    return;
  }
  switch (m) {
    case 4:
      launch<4>(a, b, b_row_index, c_blocks, m, max_element, out, stream);
      break;
    case 8:
      launch<8>(a, b, b_row_index, c_blocks, m, max_element, out, stream);
      break;
    case 16:
      launch<16>(a, b, b_row_index, c_blocks, m, max_element, out, stream);
      break;
    case 32:
      launch<32>(a, b, b_row_index, c_blocks, m, max_element, out, stream);
      break;
    case 64:
      launch<64>(a, b, b_row_index, c_blocks, m, max_element, out, stream);
      break;
    default:
      launch<0>(a, b, b_row_index, c_blocks, m, max_element, out, stream);
  }
  check_launch("mul_gustavson");
}

}  // namespace spmm::kernels
