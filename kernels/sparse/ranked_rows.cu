// Gustavson with sums by rank: a CTA takes some successive C blocks of a row, all of which exist, with a slot of sums
// each in shared memory, and writes their records where they belong.
#include <algorithm>

#include "kernels/block_side.cuh"
#include "kernels/blocks/record_output.cuh"
#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/launch.hpp"
#include "kernels/sparse/ranked_windows.cuh"

namespace spmm::kernels {
namespace {

/// What the CTAs of one launch work with.
struct RankLaunch {
  RankedProduct product;
  RankScratch scratch;
  const std::uint64_t* counts;  // [1], device: windows << 32 | C blocks of the panel
  std::uint32_t slots;
  std::uint32_t* records;     // of the panel, device: in result order, none left out
  const std::uint32_t* rows;  // [rows of A], device: block rows
};

/// Shared memory of a window behind its sums.
struct WindowMemory {
  std::uint32_t* columns;  // [slots]
  std::uint16_t* starts;   // [rank_buckets(slots) + 1]

  __device__ WindowMemory(std::uint32_t* region, std::uint32_t slots, std::uint32_t elements)
      : columns(region + (slots * c_block_words(elements) + 3) / 4 * 4),
        starts(reinterpret_cast<std::uint16_t*>(columns + slots)) {}
};

/// Adds the products of a warp's share of a round: the same number of pairs for each.
/// Shapes: a_blocks [count, P, P], device: the round's blocks of A.
template <std::uint32_t Warps, std::uint32_t P, std::uint32_t M, bool Fits>
__device__ void add_round(const RankLaunch& launch, const RankRound<Warps>& round, std::uint32_t count,
                          const std::uint16_t* a_blocks, const RankedColumns& columns, const Accumulators<M>& sums) {
  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint32_t total = round.before[count];
  std::uint32_t next = total * warp / Warps;  // kBlocks * 2,048 slots * Warps fit 32 bits
  const std::uint32_t end = total * (warp + 1) / Warps;
  if (next == end) return;
  auto x = static_cast<std::uint32_t>(upper_bound(round.before, 0, count, next)) - 1;
  for (; next < end; ++x) {
    const std::uint32_t skipped = next - round.before[x];
    const std::uint32_t pairs = min(end, round.before[x + 1]) - next;
    const BSegment segment{round.first[x] + skipped, round.first[x] + skipped + pairs};
    add_ranked<P, M, Fits>(a_blocks + std::uint32_t{round.a[x]} * (P * P), launch.product.b, segment, columns,
                           launch.product.m, sums);
    next += pairs;
  }
}

/// Tells which C blocks of a window are not zero: non_zero of its records.
template <std::uint32_t M, bool Fits>
__device__ void flag_window(const Accumulators<M>& sums, std::uint32_t count, std::uint8_t* non_zero) {
  for (std::uint32_t c_block = threadIdx.x; c_block < count; c_block += blockDim.x) {
    bool any = false;
    for (std::uint32_t e = 0; e < sums.elements() && !any; ++e) any = sums.template value<Fits>(c_block, e) != 0;
    non_zero[c_block] = any ? 1 : 0;
  }
}

/// Multiplies a window and writes its records.
/// Threads: all of the CTA.
template <std::uint32_t Warps, std::uint32_t P, std::uint32_t M, bool Fits>
__device__ void multiply_window(const RankLaunch& launch, const RankWindow& window, std::uint32_t* region,
                                RankRound<Warps>& round) {
  constexpr std::uint32_t kThreads = RankRound<Warps>::kThreads;
  const RankedProduct& product = launch.product;
  const std::uint32_t m = M != 0 ? M : product.m;
  const std::uint32_t count = window.count & ~(kWholeRow | kLastOfPart);
  const Accumulators<M> sums(region, count, m * m);
  for (std::uint32_t x = threadIdx.x; x < (count * c_block_words(m * m) + 3) / 4; x += kThreads) {
    reinterpret_cast<uint4*>(region)[x] = uint4{0, 0, 0, 0};
  }
  const WindowMemory memory(region, launch.slots, m * m);
  const RankedColumns columns =  // has a barrier: sums are clear
      fill_buckets(launch.scratch.columns + window.first, count, memory.columns, memory.starts);
  const std::uint32_t* const offsets = product.a.index.offsets + window.row;
  const WindowRange range{.is_whole = (window.count & kWholeRow) != 0,
                          .splits = window.splits == kNoRow ? nullptr : launch.scratch.splits + window.splits,
                          .begin = offsets[0],
                          .of_a = offsets[1] - offsets[0],
                          .first = columns.first,
                          .last = memory.columns[count - 1]};
#pragma unroll 1
  for (std::uint32_t first = 0; first < range.of_a; first += RankRound<Warps>::kBlocks) {
    BSegment segments[RankRound<Warps>::kPerThread];
#pragma unroll
    for (std::uint32_t t = 0; t < RankRound<Warps>::kPerThread; ++t) {
      segments[t] = range.segment(product, first + threadIdx.x + t * kThreads);
    }
    const std::uint32_t num_segments = round.list(segments);
    add_round<Warps, P, M, Fits>(launch, round, num_segments,
                                 product.a.values + (std::uint64_t{range.begin} + first) * P * P, columns, sums);
  }
  __syncthreads();  // all products are added
  if (launch.scratch.non_zero != nullptr) flag_window<M, Fits>(sums, count, launch.scratch.non_zero + window.record);
  const RecordOutput out{.records = launch.records, .rows = nullptr, .look_back = nullptr, .num_blocks = nullptr};
  const std::uint32_t block_row = launch.rows[window.row];
  const auto value_at = [&](std::uint32_t c_block, std::uint32_t e) { return sums.template value<Fits>(c_block, e); };
  const auto pair_at = [&](std::uint32_t c_block, std::uint32_t x) {
    if (P != 16 || m != P) return sums.template pair<Fits>(c_block, x);
    const std::uint32_t bits = ranked_swizzle(2 * x / P % 8);
    const uint2 two = sums.template pair<Fits>(c_block, (2 * x ^ bits) / 2);
    return bits % 2 == 0 ? two : uint2{two.y, two.x};
  };
  const auto index_of = [&](std::uint32_t c_block) { return uint2{block_row, memory.columns[c_block]}; };
  const AllCBlocks all{.first = window.record, .count = count};
  write_records<M>(all, all, m, out, RecordParts{value_at, pair_at, index_of});
}

/// Hands out windows. Threads: one of a CTA, which shares the answer.
__device__ inline std::uint32_t next_window(const RankScratch& scratch) {
  return static_cast<std::uint32_t>(atomicAdd(scratch.counters + kWindowTicket, 1ull));  // each CTA a window of its own
}

// Grid: as many CTAs as fit the device; each takes one window after the other.
// Work: the CTA reads the columns of its window, finds in rounds the B segments that fall into it, and shares their
//       pairs evenly among its warps. A warp finds the slots of 32 blocks of B at once, a lane each.
// Memory: B's blocks are read contiguously; sums are in shared memory; records are written contiguously.
template <std::uint32_t Warps, std::uint32_t P, std::uint32_t M>
__global__ void __launch_bounds__(Warps * 32, 32 / Warps) mul_ranked(RankLaunch launch) {
  extern __shared__ __align__(16) std::uint32_t region[];
  __shared__ RankRound<Warps> round;
  const auto num_windows = static_cast<std::uint32_t>(*launch.counts >> 32);
  const std::uint32_t m = M != 0 ? M : launch.product.m;
  while (true) {
    if (threadIdx.x == 0) round.ticket = next_window(launch.scratch);
    __syncthreads();  // the ticket is drawn
    if (round.ticket >= num_windows) return;
    const RankWindow window = launch.scratch.windows[round.ticket];
    const std::uint32_t* const offsets = launch.product.a.index.offsets + window.row;
    const std::uint64_t num_terms = std::uint64_t{offsets[1] - offsets[0]} * m;  // of an element at most
    if (num_terms * launch.product.max_element <= kMaxVal / max(launch.product.max_element, 1u)) {
      multiply_window<Warps, P, M, true>(launch, window, region, round);
    } else {
      multiply_window<Warps, P, M, false>(launch, window, region, round);
    }
    __syncthreads();  // shared memory may be used again
  }
}

// Grid: as many CTAs as fit the device, a warp per record in turn.
// Work: copies the records that are not zero to their place.
// Memory: contiguous reads and writes of 4 bytes per lane.
__global__ void __launch_bounds__(kItemThreads)
    pack_ranked(RankScratch scratch, const std::uint32_t* positions, const std::uint64_t* num_c_blocks,
                std::uint32_t record_words, std::uint32_t* records) {
  const auto count = static_cast<std::uint32_t>(*num_c_blocks);
  for_each_item(std::uint64_t{count} * 32, [=](std::uint64_t item) {
    const std::uint64_t x = item / 32;
    if (scratch.non_zero[x] == 0) return;
    const std::uint32_t* const from = scratch.unpacked + x * record_words;
    std::uint32_t* const to = records + std::uint64_t{positions[x]} * record_words;
    for (std::uint32_t w = item % 32; w < record_words; w += 32) to[w] = from[w];
  });
}

/// CTAs of a kernel that are on the device at once.
template <class Kernel>
unsigned resident_ctas(Kernel kernel, std::uint32_t threads, std::uint32_t shared_bytes) {
  int device = 0;
  int processors = 0;
  int per_processor = 0;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)),
        "mul_ranked shared memory");
  check(cudaGetDevice(&device), "device");
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "multiprocessors");
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, kernel, static_cast<int>(threads), shared_bytes),
        "occupancy");
  return static_cast<unsigned>(processors * std::max(1, per_processor));
}

template <std::uint32_t Warps>
void launch_of_shape(const RankLaunch& what, cudaStream_t stream) {
  const std::uint32_t shared_bytes = rank_region_bytes(what.product.m, what.slots);
  for_row_sides(what.product.m, [&](auto side, auto m) {
    if constexpr (decltype(side)::value <= kMaxRankedSide) {
      const auto kernel = mul_ranked<Warps, decltype(side)::value, decltype(m)::value>;
      const unsigned grid = resident_ctas(kernel, Warps * 32, shared_bytes);
      kernel<<<grid, Warps * 32, shared_bytes, stream>>>(what);
    }
  });
  check_launch("mul_ranked");
}

/// CTAs that suit the rows of a panel, and fit this device.
RankShape shape_of(const RankedProduct& product, bool has_short_rows) {
  int device = 0;
  int bytes = 0;
  check(cudaGetDevice(&device), "device");
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "shared memory limit");
  const auto fits = [&](RankCta cta) {
    return cta.region_bytes + sizeof(RankRound<kRankWideCta.warps>) <= static_cast<std::size_t>(bytes);
  };
  RankCta cta = !has_short_rows ? kRankWideCta : product.m <= kRankTinySide ? kRankTinyCta : kRankShortCta;
  if (!fits(cta)) cta = kRankSmallestCta;
  return {.cta = cta, .slots = rank_slots(product.m, cta)};
}

}  // namespace

void launch_mul_ranked(const RankedProduct& product, const CBlocksView& c_blocks, const RankScratch& scratch,
                       const RecordOutput& out, cudaStream_t stream) {
  if (c_blocks.num_c_blocks == 0 || scratch.max_span == 0) {
    check(cudaMemsetAsync(out.num_blocks, 0, sizeof(std::uint32_t), stream), "no records");
    return;
  }
  const bool may_be_zero = scratch.non_zero != nullptr;
  const RankShape shape = shape_of(product, scratch.mean_row_pairs <= kRankShortRowPairs);
  check(cudaMemsetAsync(scratch.counters, 0, kRankCounters * sizeof(unsigned long long), stream), "clear counters");
  launch_rank_parts(product, c_blocks, scratch, stream);
  launch_rank_columns(product, c_blocks, scratch, shape, stream);
  launch_rank_windows(product, c_blocks, scratch, out.num_blocks, stream);
  const RankLaunch what{.product = product,
                        .scratch = scratch,
                        .counts = scratch.counts_before + scratch.max_parts,
                        .slots = shape.slots,
                        .records = may_be_zero ? scratch.unpacked : out.records,
                        .rows = out.rows};
  if (may_be_zero) check(cudaMemsetAsync(scratch.non_zero, 0, scratch.max_c_blocks, stream), "clear flags");
  if (shape.cta.warps == kRankWideCta.warps) {
    launch_of_shape<kRankWideCta.warps>(what, stream);
  } else if (shape.cta.warps == kRankShortCta.warps) {
    launch_of_shape<kRankShortCta.warps>(what, stream);
  } else {
    launch_of_shape<kRankTinyCta.warps>(what, stream);
  }
  if (!may_be_zero) return;
  std::uint32_t* const positions = scratch.columns;  // no longer needed
  launch_positions(scratch.non_zero, scratch.max_c_blocks, positions, out.num_blocks, scratch.work, stream);
  constexpr unsigned kCtas = 2048;  // resident on the largest device
  pack_ranked<<<kCtas, kItemThreads, 0, stream>>>(scratch, positions, what.counts, 2 + product.m * product.m,
                                                  out.records);
  check_launch("pack_ranked");
}

}  // namespace spmm::kernels
