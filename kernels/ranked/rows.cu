// Gustavson with sums by rank: a CTA takes some successive C blocks of a row, all of which exist, with a slot of sums
// each in shared memory, and writes their records where they belong.
#include <algorithm>

#include "kernels/block_side.cuh"
#include "kernels/blocks/launch.hpp"
#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/ranked/launch.hpp"
#include "kernels/ranked/records.cuh"
#include "kernels/ranked/windows.cuh"
#include "kernels/ranked/work_units.cuh"

namespace spmm::kernels {
namespace {

/// What the CTAs of one launch work with.
struct RankLaunch {
  RankedProduct product;
  RankScratch scratch;
  const std::uint64_t* counts;  // [1], device: windows << 32 | C blocks of the panel
  std::uint32_t slots;
  std::uint32_t fitting_pairs;  // of a C block, whose sums fit 32 bits whatever the elements are
  RecordOutput out;             // in result order, none left out; num_before belongs to it
};

/// Shared memory of a window behind its sums.
struct WindowMemory {
  std::uint32_t* columns;  // [slots]
  std::uint16_t* buckets;  // [rank_buckets(slots), 2]

  __device__ WindowMemory(std::uint32_t* region, std::uint32_t slots, std::uint32_t elements)
      : columns(region + ((slots + 1) * c_block_words(elements) + 3) / 4 * 4),
        buckets(reinterpret_cast<std::uint16_t*>(columns + slots)) {}
};

/// What the CTA shares in addition to the window's memory: units of four blocks, or segments of B.
template <std::uint32_t Warps, std::uint32_t P>
using RoundOf = std::conditional_t<P <= 8, RankWorkUnits<Warps>, RankRound<Warps>>;

/// Adds the products of a warp's share of a round: the same number of pairs for each.
/// Shapes: a_blocks [count, P, P], device: the round's blocks of A.
template <std::uint32_t Warps, std::uint32_t P, std::uint32_t M, bool Fits>
__device__ void add_round(const RankedProduct& product, const RankRound<Warps>& round, std::uint32_t count,
                          const std::uint16_t* a_blocks, const RankTargets<M>& to) {
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
    add_ranked_wide<P, Fits>(a_blocks + std::uint32_t{round.a[x]} * (P * P), product.b, segment, product.m, to);
    next += pairs;
  }
}

/// The segments of the calling thread in the round that begins at a row's block of A number `first`.
template <class Round>
__device__ typename Round::Segments segments_of(const RankedProduct& product, const WindowRange& range,
                                                std::uint32_t first) {
  typename Round::Segments segments;
#pragma unroll
  for (std::uint32_t t = 0; t < Round::kPerThread; ++t) {
    segments.of[t] = range.segment(product, first + threadIdx.x + t * Round::kThreads);
  }
  return segments;
}

/// Adds the products of a round, by segments of B. Complete after the next barrier.
/// Shapes: a_blocks [kBlocks, P, P], device: the round's blocks of A.
/// Threads: all of the CTA.
template <std::uint32_t P, std::uint32_t M, bool Fits, std::uint32_t Warps>
__device__ void add_segments(const RankedProduct& product, const typename RankRound<Warps>::Segments& segments,
                             const std::uint16_t* a_blocks, const RankTargets<M>& to, RankRound<Warps>& round) {
  const std::uint32_t num_segments = round.list(segments);
  add_round<Warps, P, M, Fits>(product, round, num_segments, a_blocks, to);
}

/// The same, by units.
template <std::uint32_t P, std::uint32_t M, bool Fits, std::uint32_t Warps>
__device__ void add_segments(const RankedProduct& product, const typename RankWorkUnits<Warps>::Segments& segments,
                             const std::uint16_t* a_blocks, const RankTargets<M>& to, RankWorkUnits<Warps>& round) {
  constexpr std::uint32_t kMaxUnits = RankWorkUnits<Warps>::kMaxUnits;
  const std::uint32_t through = round.count(segments.of[0]);
  const std::uint32_t all = __shfl_sync(~0u, through, 31);
#pragma unroll 1
  for (std::uint32_t begin = 0; begin < all; begin += kMaxUnits) {
    if (begin != 0) __syncthreads();  // the units before are no longer needed
    const std::uint32_t count = min(all - begin, kMaxUnits);
    round.list(through, begin, count, product.num_b_blocks);
    __syncthreads();  // units are listed
    add_rank_units<Warps, P, M, Fits>(round, count, a_blocks, product.b, product.m, to);
  }
}

/// Adds the products of a window in rounds; segments: of the first one. Complete after the next barrier.
/// Threads: all of the CTA.
template <std::uint32_t P, std::uint32_t M, bool Fits, class Round>
__device__ void add_window(const RankedProduct& product, const WindowRange& range, typename Round::Segments segments,
                           const RankTargets<M>& to, Round& round) {
  const std::uint16_t* a_blocks = product.a.values + std::uint64_t{range.begin} * P * P;
#pragma unroll 1
  for (std::uint32_t first = 0;;) {
    add_segments<P, M, Fits>(product, segments, a_blocks, to, round);
    first += Round::kBlocks;
    if (first >= range.of_a) return;
    a_blocks += Round::kBlocks * P * P;
    segments = segments_of<Round>(product, range, first);
  }
}

/// Clears the sums of a window, its bits, and those of a C block behind the last one. Threads: all of the CTA.
template <std::uint32_t M>
__device__ void clear_window(const Accumulators<M>& sums, std::uint32_t count) {
  const std::uint32_t end = ((count + 1) * c_block_words(sums.elements()) + 3) / 4;
  for (std::uint32_t x = threadIdx.x; x < end; x += blockDim.x) reinterpret_cast<uint4*>(sums.sums)[x] = uint4{};
}

/// Whether a C block of a window has more pairs than `most`.
/// Threads: all of the CTA, once all pairs are counted; it shares the answer.
template <std::uint32_t M>
__device__ bool any_has_more(const RankTargets<M>& counted, std::uint32_t most) {
  bool any = false;
  for (std::uint32_t x = threadIdx.x; x < counted.num_c_blocks; x += blockDim.x) {
    any = any || counted.counts[x * counted.count_stride] > most;
  }
  return __syncthreads_or(any ? 1 : 0) != 0;
}

/// Multiplies a window; returns whether no bits of its sums need to be examined. fitting_pairs: of a C block, whose
/// sums fit 32 bits. Work: if a C block could have more than those, pairs are counted and nothing else is checked;
/// few windows turn
///       out to have one, and are multiplied again.
/// Threads: all of the CTA. All products are added when it returns.
template <std::uint32_t P, std::uint32_t M, class Round>
__device__ bool multiply_window(const RankLaunch& launch, const RankWindow& window, const Accumulators<M>& sums,
                                const WindowMemory& memory, Round& round) {
  const RankedProduct& product = launch.product;
  const std::uint32_t fitting_pairs = launch.fitting_pairs;
  const std::uint32_t count = window.num_c_blocks();
  const std::uint32_t* const listed = launch.scratch.columns + window.first;
  const std::uint32_t* const offsets = product.a.index.offsets + window.row;
  const WindowRange range{.is_whole = (window.count & kWholeRow) != 0,
                          .splits = window.splits == kNoRow ? nullptr : launch.scratch.splits + window.splits,
                          .begin = offsets[0],
                          .of_a = offsets[1] - offsets[0],
                          .first = __ldg(listed),
                          .last = __ldg(listed + count - 1)};
  typename Round::Segments segments = segments_of<Round>(product, range, 0);  // known when sums are clear
  clear_window(sums, count);
  const RankedColumns columns = fill_buckets(listed, count, memory.columns, memory.buckets);  // has a barrier
  RankTargets<M> to{.columns = columns,
                    .sums = sums,
                    .num_c_blocks = count,
                    .counts = nullptr,
                    .count_stride = c_block_words(sums.elements()) - sums.elements()};
  if (fitting_pairs >= kMinCountedPairs || range.of_a <= fitting_pairs) {
    if (range.of_a > fitting_pairs) to.counts = sums.saturated;  // no bits are set meanwhile
    add_window<P, M, true>(product, range, segments, to, round);
    __syncthreads();  // all products are added
    if (to.counts == nullptr || !any_has_more(to, fitting_pairs)) return true;
    to.counts = nullptr;
    segments = segments_of<Round>(product, range, 0);
    clear_window(sums, count);
    __syncthreads();  // sums are clear
  }
  add_window<P, M, false>(product, range, segments, to, round);
  __syncthreads();  // all products are added
  return false;
}

/// Hands out windows. Threads: one of a CTA, which shares the answer.
__device__ inline std::uint32_t next_window(const RankScratch& scratch) {
  return static_cast<std::uint32_t>(atomicAdd(scratch.counters + kWindowTicket, 1ull));  // each CTA a window of its own
}

/// The window of a ticket; behind the last one: an empty one.
__device__ inline RankWindow window_of(const RankLaunch& launch, std::uint32_t ticket) {
  const auto num_windows = static_cast<std::uint32_t>(*launch.counts >> 32);
  return ticket < num_windows ? launch.scratch.windows[ticket] : RankWindow{};
}

// Grid: as many CTAs as fit the device; each takes one window after the other.
// Work: the CTA reads the columns of its window, finds in rounds the B segments that fall into it, and shares them
//       among its warps, in units of four blocks or, for side 16, with as many pairs for each. A warp finds the slots
//       of 32 blocks of B at once, a lane each. The next window is asked for early.
// Memory: B's blocks are read contiguously; sums are in shared memory; records are written contiguously.
template <std::uint32_t Warps, std::uint32_t P, std::uint32_t M>
__global__ void __launch_bounds__(Warps * 32, 32 / Warps) mul_ranked(RankLaunch launch) {
  extern __shared__ __align__(16) std::uint32_t region[];
  __shared__ RoundOf<Warps, P> round;
  __shared__ RankWindow taken;
  const std::uint32_t elements = M != 0 ? M * M : launch.product.m * launch.product.m;
  const WindowMemory memory(region, launch.slots, elements);
  if (threadIdx.x == 0) taken = window_of(launch, next_window(launch.scratch));
  while (true) {
    __syncthreads();  // the window is known, shared memory may be used again
    const RankWindow window = taken;
    const std::uint32_t count = window.num_c_blocks();
    if (count == 0) return;
    std::uint32_t ticket = 0;
    if (threadIdx.x == 0) ticket = next_window(launch.scratch);
    const Accumulators<M> sums(region, count + 1, elements);
    const bool fits = multiply_window<P, M>(launch, window, sums, memory, round);
    RankWindow next;
    if (threadIdx.x == 0) next = window_of(launch, ticket);
    const WindowRecords records{.to = launch.out.to,
                                .non_zero = launch.scratch.non_zero,
                                .first = records_of_panels_before(launch.out) + window.record,
                                .count = count,
                                .block_row = launch.out.rows[window.row],
                                .columns = memory.columns};
    if (fits) {
      write_window<P, M, true>(sums, launch.product.m, records);
    } else {
      write_window<P, M, false>(sums, launch.product.m, records);
    }
    if (threadIdx.x == 0) taken = next;
  }
}

// Grid: as many CTAs as fit the device, a warp per record in turn.
// Work: copies the records that are not zero to their place.
// Memory: contiguous reads and writes of 4 bytes per lane.
__global__ void __launch_bounds__(kItemThreads)
    pack_ranked(RankScratch scratch, const std::uint32_t* positions, const std::uint64_t* num_c_blocks,
                std::uint32_t record_words, RecordOutput out) {
  const auto count = static_cast<std::uint32_t>(*num_c_blocks);
  const std::uint32_t before = records_of_panels_before(out);
  for_each_item(std::uint64_t{count} * 32, [=](std::uint64_t item) {
    const std::uint64_t x = item / 32;
    if (scratch.non_zero[x] == 0) return;
    const std::uint32_t* const from = scratch.unpacked + x * record_words;
    const RecordWords<std::uint32_t> to(out.to, before + positions[x]);
    for (std::uint32_t w = item % 32; w < record_words; w += 32) to.at(0, w) = from[w];
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
    return cta.region_bytes + sizeof(RankWorkUnits<kRankWideCta.warps>) <= static_cast<std::size_t>(bytes);
  };
  RankCta cta = !has_short_rows ? kRankWideCta : product.m <= kRankTinySide ? kRankTinyCta : kRankShortCta;
  if (!fits(cta)) cta = kRankSmallestCta;
  return {.cta = cta, .slots = rank_slots(product.m, cta)};
}

/// Pairs of a C block whose sums fit 32 bits in any case.
std::uint32_t fitting_pairs(const RankedProduct& product) {
  const std::uint64_t of_pair =
      std::max<std::uint64_t>(std::uint64_t{product.max_element} * product.max_element * product.m, 1);
  return static_cast<std::uint32_t>(std::uint64_t{kMaxVal} / of_pair);
}

}  // namespace

void launch_mul_ranked(const RankedProduct& product, const CBlocksView& c_blocks, const RankScratch& scratch,
                       const RecordOutput& out, cudaStream_t stream) {
  if (c_blocks.num_c_blocks == 0 || scratch.max_span == 0) {
    launch_no_records(out, stream);
    return;
  }
  const bool may_be_zero = scratch.non_zero != nullptr;
  const RankShape shape = shape_of(product, scratch.mean_row_pairs <= kRankShortRowPairs);
  check(cudaMemsetAsync(scratch.counters, 0, kRankCounters * sizeof(unsigned long long), stream), "clear counters");
  launch_row_pieces(product, c_blocks, scratch, stream);
  launch_rank_columns(product, c_blocks, scratch, shape, stream);
  launch_rank_windows(product, c_blocks, scratch, out, stream);
  const RankLaunch what{
      .product = product,
      .scratch = scratch,
      .counts = scratch.counts_before + scratch.max_pieces,
      .slots = shape.slots,
      .fitting_pairs = fitting_pairs(product),
      .out = may_be_zero ? RecordOutput{.to = packed_records(scratch.unpacked, product.m), .rows = out.rows} : out};
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
  launch_positions(scratch.non_zero, scratch.max_c_blocks, positions, out, scratch.work, stream);
  constexpr unsigned kCtas = 2048;  // resident on the largest device
  pack_ranked<<<kCtas, kItemThreads, 0, stream>>>(scratch, positions, what.counts, 2 + product.m * product.m, out);
  check_launch("pack_ranked");
}

}  // namespace spmm::kernels
