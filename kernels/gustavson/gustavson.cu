// Gustavson kernel: a CTA accumulates one column chunk of one row of C in shared memory, row of B by row of B.
#include <algorithm>
#include <array>
#include <atomic>
#include <type_traits>

#include "kernels/block_side.cuh"
#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/gustavson/binned_chunks.cuh"
#include "kernels/gustavson/chunk_output.cuh"
#include "kernels/gustavson/column_chunks.cuh"
#include "kernels/gustavson/launch.hpp"
#include "kernels/gustavson/work_units.cuh"

namespace spmm::kernels {
namespace {

constexpr std::uint32_t kThreads = ColumnChunks::kThreads;
constexpr std::uint32_t kWarps = ColumnChunks::kWarps;

// Grid: one thread per split offset or look-back state.
// Work: clears the state; a binary search in a row of B, neighbouring threads in the same row.
// Memory: contiguous writes; scattered reads, the upper levels of which stay in cache.
__global__ void prepare_chunks(CompressedView b, CBlocksView c_blocks, ColumnChunks chunks, std::uint64_t* states,
                               std::uint64_t num_states, std::uint32_t* split_offsets,
                               std::uint64_t num_split_offsets) {
  const std::uint32_t per_b_row = chunks.per_row + 1;
  for_each_item(max(num_states, num_split_offsets), [=](std::uint64_t x) {
    if (x < num_states) states[x] = 0;
    if (x >= num_split_offsets) return;
    const auto b_row = static_cast<std::uint32_t>(x / per_b_row);
    const auto chunk = static_cast<std::uint32_t>(x % per_b_row);
    const bool is_last = chunk == chunks.per_row;
    const std::uint32_t column =
        is_last ? c_blocks.column_begin + c_blocks.num_columns : chunks.first_column(c_blocks, chunk);
    split_offsets[x] = split_offset(b, b_row, column);
  });
}

/// Flags the C blocks that have pairs, which is to say, all that are written if none of these is zero.
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

/// What a CTA multiplies in a round.
struct RoundWork {
  const OperandView& b;
  const std::uint16_t* a_blocks;  // [count, P, P], device
  BSegment segment;               // of the calling thread's block of A
  std::uint32_t count;            // of blocks of A
  std::uint32_t num_b_blocks;
  std::uint32_t num_c_blocks;
  std::uint32_t m;
};

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

/// What a CTA lists of its work: B segments; or, if these are short, units of them (work_units.cuh), for which
/// there are sums of one C block more that no record is made of; or pairs in bins (binned_chunks.cuh) for rows whose
/// sums are checked, B segments for others.
enum class Listing { segments, units, bins };
template <std::uint32_t P, Listing L>
using Listed = std::conditional_t<L == Listing::units, WorkUnitList<P>, Round>;

/// Whether no sum of a row of A of num_blocks blocks can leave 32 bits.
__device__ inline bool sums_fit(const GustavsonProduct& product, std::uint32_t num_blocks, std::uint32_t m) {
  const std::uint64_t num_terms = std::uint64_t{num_blocks} * m;  // of an element at most
  return num_terms * product.max_element <= kMaxVal / max(product.max_element, 1u);
}

/// Whether C blocks of a row of A of num_blocks blocks have between `least` and `most` pairs on average, as far as
/// the mean of B tells.
inline __host__ __device__ bool has_pairs_per_c_block(const GustavsonProduct& product, std::uint32_t num_blocks,
                                                      std::uint32_t num_columns, std::uint32_t least,
                                                      std::uint32_t most) {
  const std::uint64_t places = std::uint64_t{product.b.index.num_rows} * num_columns;
  const std::uint64_t pairs = std::uint64_t{num_blocks} * product.num_b_blocks;  // for as many places
  return pairs >= least * places && pairs <= most * places;
}

/// Adds the products of the listed segments or units of one round. Returns whether records have been put in order.
/// Threads: all of the CTA.
template <std::uint32_t P, std::uint32_t M, bool Fits>
__device__ bool add_round(Round& round, const RoundWork& work, bool may_order, const Accumulators<M>& sums,
                          const ChunkOutput& chunk, const RecordOutput& out) {
  const Share share = round.list(work.segment, work.count, P * P);  // has a barrier: at first, sums are clear, too
  if (may_order) {
    mark_columns(round, work.count, work.b.index.columns, chunk.first_index.y, chunk.flags);
    __syncthreads();  // flags are complete
    if (threadIdx.x < 32) order_early(chunk.flags, work.num_c_blocks, out, chunk.num_ctas, chunk.order);
  }
  add_share<P, M, Fits>(round, share, work.count, work.a_blocks, work.b, chunk.first_index.y, work.m, sums);
  return may_order;
}

template <std::uint32_t P, std::uint32_t M, bool Fits>
__device__ bool add_round(WorkUnitList<P>& list, const RoundWork& work, bool may_order, const Accumulators<M>& sums,
                          const ChunkOutput& chunk, const RecordOutput& out) {
  const typename WorkUnitList<P>::Count units = list.count(work.segment);
  may_order = may_order && units.all <= WorkUnitList<P>::kMaxUnits;  // else flags are complete too late
  for (std::uint32_t begin = 0; begin < units.all || begin == 0; begin += WorkUnitList<P>::kMaxUnits) {
    const std::uint32_t count = min(units.all - begin, WorkUnitList<P>::kMaxUnits);
    if (begin != 0) __syncthreads();  // the units before are no longer read
    list.list(work.segment, units, begin, work.num_b_blocks);
    __syncthreads();  // units are listed
    list.place(count, work.b.index.columns, chunk.first_index.y, work.num_c_blocks, sums.elements(),
               [&](std::uint32_t c_block) {
                 // Other threads mark the same words.
                 if (may_order) atomicOr(&chunk.flags.words[c_block / 32], 1u << c_block % 32);
               });
    __syncthreads();  // places of sums and flags are complete
    if (may_order && threadIdx.x < 32) order_early(chunk.flags, work.num_c_blocks, out, chunk.num_ctas, chunk.order);
    add_units<M, Fits>(list, count, work.a_blocks, work.b.values, work.m, sums);
  }
  return may_order;
}

// Grid: one CTA per block row of the panel and column chunk; they are handed out in result order as CTAs start.
// Work: by bins: binned_chunks.cuh. Else:
//       in rounds of kThreads blocks of A: every thread finds the B segment of one block; then warps share the
//       segments, or units of them.
//       At the end the CTA writes the records of its chunk. Where no C block with pairs is zero and there is one round,
//       the first warp learns where they go while the others multiply; else the sums are searched before.
// Memory: B's blocks are read contiguously; sums are in shared memory, the lanes of a warp on different banks.
template <std::uint32_t P, std::uint32_t M, Listing L>
__global__ void __launch_bounds__(kThreads, 2)
    mul_gustavson(GustavsonProduct product, CBlocksView c_blocks, ColumnChunks chunks, ZeroProducts zeros,
                  RecordOutput out) {
  extern __shared__ __align__(16) std::uint32_t shared[];
  __shared__ Listed<P, L> listed;
  __shared__ CBlockFlags flags;
  __shared__ std::uint16_t order[CBlockFlags::kMaxCBlocks];
  if (!is_wanted(out)) return;
  const CompressedView& a = product.a.index;
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
  if constexpr (L == Listing::bins) {
    const ChunkOutput written{
        .flags = flags, .order = order, .first_index = uint2{out.rows[row], first_column}, .num_ctas = chunks.num_ctas};
    const BinnedChunk binned{.product = product,
                             .written = written,
                             .out = out,
                             .first_a = a.offsets[row],
                             .count = a.offsets[row + 1] - a.offsets[row],
                             .num_c_blocks = num_c_blocks,
                             .are_none_zero = zeros.are_none || (zeros.found != nullptr && *zeros.found == 0)};
    if (!sums_fit(product, binned.count, m) && binned.count <= kThreads &&
        has_pairs_per_c_block(product, binned.count, c_blocks.num_columns, 0, kMaxBinPairs)) {
      BSegment segment = {0, 0};
      if (threadIdx.x < binned.count) {
        const std::uint32_t b_row = product.b_row_index[binned.first_a + threadIdx.x];
        segment = find_segment(product.b.index, b_row, c_blocks, chunks, chunk, num_c_blocks);
      }
      if (mul_in_bins<M>(listed, segment, shared, binned)) return;
      for (std::uint32_t w = threadIdx.x; w < CBlockFlags::kMaxCBlocks / 32; w += kThreads) flags.words[w] = 0;
    }
  }
  const std::uint32_t num_sums = num_c_blocks + (L == Listing::units ? 1 : 0);
  const Accumulators<M> sums(shared, num_sums, elements);
  for (std::uint32_t x = threadIdx.x; x < (num_sums * c_block_words(elements) + 3) / 4; x += kThreads) {
    reinterpret_cast<uint4*>(shared)[x] = uint4{0, 0, 0, 0};
  }

  const std::uint32_t end = a.offsets[row + 1];
  const bool are_none_zero = zeros.are_none || (zeros.found != nullptr && *zeros.found == 0);
  bool is_ordered = are_none_zero && end - a.offsets[row] <= kThreads;
  const bool fits = sums_fit(product, end - a.offsets[row], m);
  const ChunkOutput written{
      .flags = flags, .order = order, .first_index = uint2{out.rows[row], first_column}, .num_ctas = chunks.num_ctas};
  for (std::uint32_t first = a.offsets[row]; first < end; first += kThreads) {
    RoundWork work{.b = product.b,
                   .a_blocks = product.a.values + std::uint64_t{first} * P * P,
                   .segment = {0, 0},
                   .count = min(kThreads, end - first),
                   .num_b_blocks = product.num_b_blocks,
                   .num_c_blocks = num_c_blocks,
                   .m = m};
    if (threadIdx.x < work.count) {
      const std::uint32_t b_row = product.b_row_index[first + threadIdx.x];
      work.segment = find_segment(product.b.index, b_row, c_blocks, chunks, chunk, num_c_blocks);
    }
    if (fits) {
      is_ordered = add_round<P, M, true>(listed, work, is_ordered, sums, written, out);
    } else {
      is_ordered = add_round<P, M, false>(listed, work, is_ordered, sums, written, out);
    }
    __syncthreads();  // segments may be overwritten; after the last round: all products are added
  }

  if (fits) {
    write_chunk<P, M, true>(sums, num_c_blocks, m, is_ordered, written, out);
  } else {
    write_chunk<P, M, false>(sums, num_c_blocks, m, is_ordered, written, out);
  }
}

/// Dynamic shared memory that a CTA may take for its sums on the device at hand, which learns of it in the first call:
/// asking and telling it takes as long as a short kernel.
template <std::uint32_t P, std::uint32_t M, Listing L>
std::uint32_t shared_limit() {
  constexpr std::uint32_t kStatic = sizeof(Listed<P, L>) + sizeof(CBlockFlags) + 2 * CBlockFlags::kMaxCBlocks;
  constexpr std::uint32_t kCtaBytes = 113u << 10;         // two per multiprocessor of 228 KB
  constexpr std::uint32_t kSmallSharedBytes = 36u << 10;  // if a device gives a CTA less
  constexpr std::uint32_t kMostBytes = std::min(kGustavsonSharedBytes, (kCtaBytes - kStatic - 16) / 16 * 16);
  constexpr std::size_t kKnownDevices = 64;
  static std::array<std::atomic<std::uint32_t>, kKnownDevices> known{};
  int device = 0;
  check(cudaGetDevice(&device), "device");
  const auto number = static_cast<std::size_t>(device);
  if (number < kKnownDevices && known[number] != 0) return known[number];
  int bytes = 0;
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "shared memory limit");
  const std::uint32_t limit =
      static_cast<std::uint32_t>(bytes) >= kMostBytes + kStatic ? kMostBytes : kSmallSharedBytes;
  check(cudaFuncSetAttribute(mul_gustavson<P, M, L>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(limit)),
        "mul_gustavson shared memory");
  if (number < kKnownDevices) known[number] = limit;
  return limit;
}

/// 32-bit words that a CTA has for each C block: for its sums, or, if pairs are binned, for whichever takes more.
template <Listing L>
std::uint32_t words_per_c_block(std::uint32_t m) {
  const std::uint32_t of_sums = c_block_words(m * m);
  return L == Listing::bins ? std::max(of_sums, PairBins::kSlots + 1) : of_sums;
}

/// Chunks as wide as the shared memory of a CTA allows for.
template <std::uint32_t P, std::uint32_t M, Listing L>
ColumnChunks cut_chunks(const GustavsonProduct& product, const CBlocksView& c_blocks) {
  const std::uint32_t c_block_bytes = words_per_c_block<L>(product.m) * 4;
  const std::uint32_t room = (shared_limit<P, M, L>() - 16) / c_block_bytes - (L == Listing::units ? 1 : 0);
  const std::uint32_t most = std::clamp(room, 1u, CBlockFlags::kMaxCBlocks);
  const std::uint32_t per_row = (c_blocks.num_columns - 1) / most + 1;
  const std::uint32_t width = (c_blocks.num_columns - 1) / per_row + 1;
  return {
      .blocks_per_chunk = width, .per_row = per_row, .num_ctas = per_row * c_blocks.num_rows, .split_offsets = nullptr};
}

template <std::uint32_t P, std::uint32_t M, Listing L>
void launch(const GustavsonProduct& product, const CBlocksView& c_blocks, ColumnChunks chunks,
            const ZeroProducts& zeros, const RecordOutput& out, cudaStream_t stream) {
  const CompressedView& b = product.b.index;
  const std::size_t num_sums = chunks.blocks_per_chunk + (L == Listing::units ? 1 : 0);
  const std::size_t shared_bytes = (num_sums * words_per_c_block<L>(product.m) * 4 + 15) / 16 * 16;
  const std::uint64_t num_states = std::uint64_t{chunks.num_ctas} + 1;
  // There is scratch for as many look-back states as C blocks; behind those of the CTAs it holds split offsets, unless
  // rows are few.
  std::uint64_t num_split_offsets = std::uint64_t{b.num_rows} * (chunks.per_row + 1);
  auto* const split_offsets = reinterpret_cast<std::uint32_t*>(out.look_back + num_states);
  if (num_split_offsets / 2 + chunks.num_ctas < c_blocks.num_c_blocks) {
    chunks.split_offsets = split_offsets;
  } else {
    num_split_offsets = 0;
  }
  prepare_chunks<<<item_grid(std::max(num_states, num_split_offsets)), kItemThreads, 0, stream>>>(
      b, c_blocks, chunks, out.look_back, num_states, split_offsets, num_split_offsets);
  check_launch("prepare_chunks");  // the next one reads what this one writes
  mul_gustavson<P, M, L><<<chunks.num_ctas, kThreads, shared_bytes, stream>>>(product, c_blocks, chunks, zeros, out);
}

/// Whether sums of a row of average length have to be checked, and bins suit its C blocks.
inline bool are_bins_faster(const GustavsonProduct& product, const CBlocksView& c_blocks) {
  const std::uint32_t mean_row = product.num_a_blocks / product.a.index.num_rows;
  const double largest_sum = static_cast<double>(product.max_element) * product.max_element * mean_row * product.m;
  return largest_sum > kMaxVal && mean_row <= kThreads && product.num_b_blocks <= PairBins::kMaxBBlocks &&
         has_pairs_per_c_block(product, mean_row, c_blocks.num_columns, kMinBinPairs, kMaxBinPairs);
}

/// Units if segments are short on average; long ones of few rows are cut into as many as there are.
template <std::uint32_t P, std::uint32_t M>
void launch(const GustavsonProduct& product, const CBlocksView& c_blocks, const ZeroProducts& zeros,
            const RecordOutput& out, cudaStream_t stream) {
  if constexpr (P == PairBins::kSide) {
    if (are_bins_faster(product, c_blocks)) {
      return launch<P, M, Listing::bins>(product, c_blocks, cut_chunks<P, M, Listing::bins>(product, c_blocks), zeros,
                                         out, stream);
    }
  }
  if constexpr (P <= 8) {
    constexpr std::uint64_t kShortSegment = P == 4 ? kShortSegment4 : kShortSegment8;
    const ColumnChunks chunks = cut_chunks<P, M, Listing::units>(product, c_blocks);
    const std::uint64_t num_segments = std::uint64_t{product.b.index.num_rows} * chunks.per_row;
    if (product.num_b_blocks >= WorkUnit::kBlocks && product.num_b_blocks <= kShortSegment * num_segments) {
      return launch<P, M, Listing::units>(product, c_blocks, chunks, zeros, out, stream);
    }
  }
  launch<P, M, Listing::segments>(product, c_blocks, cut_chunks<P, M, Listing::segments>(product, c_blocks), zeros, out,
                                  stream);
}

}  // namespace

void launch_mul_gustavson(const GustavsonProduct& product, const CBlocksView& c_blocks, const RecordOutput& out,
                          cudaStream_t stream) {
  launch_mul_gustavson(product, c_blocks, ZeroProducts{}, out, stream);
}

void launch_mul_gustavson(const GustavsonProduct& product, const CBlocksView& c_blocks, const ZeroProducts& zeros,
                          const RecordOutput& out, cudaStream_t stream) {
  if (c_blocks.num_c_blocks == 0) {
    launch_no_records(out, stream);
    return;
  }
  for_row_sides(product.m, [&](auto side, auto m) {
    launch<decltype(side)::value, decltype(m)::value>(product, c_blocks, zeros, out, stream);
  });
  check_launch("mul_gustavson");
}

}  // namespace spmm::kernels
