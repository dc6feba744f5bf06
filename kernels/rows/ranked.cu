// row-rank: a CTA takes some successive C blocks of a row, all of which exist, with a slot of sums each in shared
// memory, and writes their records where they belong.
#include <algorithm>

#include "kernels/block_side.cuh"
#include "kernels/blocks/launch.hpp"
#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/resident.hpp"
#include "kernels/rows/rounds.cuh"
#include "kernels/rows/windows.cuh"

namespace spmm::kernels {
namespace {

/// What the CTAs of one launch work with.
struct RankLaunch {
  RowProduct product;
  RankScratch scratch;
  const std::uint64_t* counts;  // [1], device: windows << 32 | C blocks of the panel
  std::uint32_t slots;
  RecordOutput out;  // in result order, none left out; num_before belongs to it
};

/// The columns of a window and the slots of their sums, in shared memory. A bucket holds the columns of an equal piece
/// of the window's span: most hold one or none.
struct RankedColumns {
  const std::uint32_t* columns;  // [slots], ascending
  std::uint16_t* buckets;        // [rank_buckets(slots), 2]: first slot of each that has columns, and where they end
  std::uint32_t first;           // column
  std::uint32_t last;
  std::uint32_t shift = 0;  // columns of a bucket: 2^shift

  /// Slot of a column. Values: one that the window has.
  [[nodiscard]] __device__ std::uint32_t slot_of(std::uint32_t column) const {
    const std::uint32_t bucket = (column - first) >> shift;
    const std::uint32_t ends = reinterpret_cast<const std::uint32_t*>(buckets)[bucket];
    return partition_point((ends & 0xFFFFu) + 1, ends >> 16, [&](std::uint32_t x) { return columns[x] <= column; }) - 1;
  }

  /// Reads the columns of a window to `to`, this->columns, and fills the buckets; complete after the next barrier. A
  /// bucket without columns is left as it is: nothing looks there.
  /// Threads: all of the CTA.
  __device__ void fill(const std::uint32_t* listed, std::uint32_t count, std::uint32_t* to) {
    const std::uint32_t bits = 32 - __clz(static_cast<int>(last - first));
    const std::uint32_t bucket_bits = 32 - __clz(static_cast<int>(count + count / 2 - 1));  // of rank_buckets(count)
    shift = bits > bucket_bits ? bits - bucket_bits : 0;
    for (std::uint32_t x = threadIdx.x; x < count; x += blockDim.x) {
      const std::uint32_t column = __ldg(listed + x);
      const std::uint32_t before = __ldg(listed + max(x, 1u) - 1);
      const std::uint32_t behind = __ldg(listed + min(x + 1, count - 1));
      to[x] = column;
      const std::uint32_t own = (column - first) >> shift;
      if (x == 0 || (before - first) >> shift != own) buckets[2 * own] = static_cast<std::uint16_t>(x);
      if (x + 1 == count || (behind - first) >> shift != own) buckets[2 * own + 1] = static_cast<std::uint16_t>(x + 1);
    }
  }
};

/// A window: which products a CTA adds, and in which slots.
struct Window {
  bool is_whole;                // all blocks of B's rows fall into it
  const std::uint32_t* splits;  // [2, num_blocks], device: where it begins and ends in B's rows; null = to be searched
  std::uint32_t begin;          // the row's first block of A
  std::uint32_t num_blocks;     // of A
  std::uint32_t num_c_blocks;
  RankedColumns columns;
  std::uint32_t* counts;  // [num_c_blocks], shared: pairs; null = not wanted

  /// Slot of the C block in a column, which gets a pair. Values: a column that the window has.
  [[nodiscard]] __device__ std::uint32_t slot_of(std::uint32_t column) const {
    const std::uint32_t slot = columns.slot_of(column);
    if (counts != nullptr) atomicAdd(counts + slot, 1);  // other warps add to the same C block
    return slot;
  }

  [[nodiscard]] __device__ BSegment segment(const RowProduct& product, std::uint32_t x) const {
    if (x >= num_blocks) return {0, 0};
    if (splits != nullptr) return {__ldg(splits + x), __ldg(splits + num_blocks + x)};
    const std::uint32_t b_row = product.b_row_index[begin + x];
    if (b_row == kNoRow) return {0, 0};
    const CompressedView& b = product.b.index;
    if (is_whole) return {b.offsets[b_row], b.offsets[b_row + 1]};
    return find_segment(b, b_row, columns.first, columns.last);
  }

  __device__ void all_placed() const {}  // records have their places
};

/// Multiplies a window.
/// Work: if a C block could have more pairs than fit 32 bits, pairs are counted and nothing else is checked; few
///       windows have such a C block and are multiplied again.
/// Threads: all of the CTA. All products are added when it returns.
template <std::uint32_t P, std::uint32_t M, class Round>
__device__ void multiply_window(const RankLaunch& launch, const RankWindow& taken, const Accumulators<M>& sums,
                                std::uint32_t* columns, Round& round) {
  const RowProduct& product = launch.product;
  const std::uint32_t fitting_pairs = product.fitting_pairs;
  const std::uint32_t count = taken.num_c_blocks();
  const std::uint32_t* const listed = launch.scratch.columns + taken.first;
  const std::uint32_t* const offsets = product.a.index.offsets + taken.row;
  Window window{.is_whole = (taken.count & kWholeRow) != 0,
                .splits = taken.splits == kNoRow ? nullptr : launch.scratch.splits + taken.splits,
                .begin = offsets[0],
                .num_blocks = offsets[1] - offsets[0],
                .num_c_blocks = count,
                .columns = {.columns = columns,
                            .buckets = reinterpret_cast<std::uint16_t*>(columns + launch.slots),
                            .first = __ldg(listed),
                            .last = __ldg(listed + count - 1)},
                .counts = nullptr};
  const std::uint32_t num_sums = (count + kUnwritten<P>)*sums.elements();  // counts behind them
  BSegment segment = window.segment(product, threadIdx.x);                 // known when sums are clear
  sums.clear(num_sums + count);
  window.columns.fill(listed, count, columns);
  __syncthreads();  // columns and buckets are complete, sums are clear
  if (fitting_pairs >= kMinCountedPairs || window.num_blocks <= fitting_pairs) {
    if (window.num_blocks > fitting_pairs) window.counts = sums.sums + num_sums;
    add_row<P, true>(round, product, window, segment, sums);
    __syncthreads();  // all products are added
    if (window.counts == nullptr) return;
    bool has_more = false;
    for (std::uint32_t x = threadIdx.x; x < count; x += blockDim.x)
      has_more = has_more || window.counts[x] > fitting_pairs;
    if (__syncthreads_or(has_more ? 1 : 0) == 0) return;  // all threads decide the same
    window.counts = nullptr;
    segment = window.segment(product, threadIdx.x);
    sums.clear(num_sums);
    __syncthreads();  // sums are clear
  }
  add_row<P, false>(round, product, window, segment, sums);
  __syncthreads();  // all products are added
}

/// Writes the records of a window, and tells which of its C blocks are not zero, if that is asked.
/// Threads: all of the CTA, once all products are added.
template <std::uint32_t P, std::uint32_t M>
__device__ void write_window(const RankLaunch& launch, const RankWindow& window, const std::uint32_t* columns,
                             const Accumulators<M>& sums) {
  const AllCBlocks all{.first = records_of_panels_before(launch.out) + window.record, .count = window.num_c_blocks()};
  if (launch.scratch.non_zero != nullptr) {
    for (std::uint32_t x = threadIdx.x; x < all.count; x += blockDim.x) {
      launch.scratch.non_zero[all.first + x] = sums.any(x) ? 1 : 0;
    }
  }
  const std::uint32_t block_row = launch.out.rows[window.row];
  const auto index_of = [&](std::uint32_t c_block) { return uint2{block_row, columns[c_block]}; };
  write_sums<P>(sums, M != 0 ? M : launch.product.m, all, all, index_of, launch.out);
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
// Work: the CTA reads the columns of its window, finds in rounds the B segments that fall into it, and shares their
//       products among its warps. A warp finds the slots of 32 blocks of B at once, a lane each. The next window is
//       asked for early.
// Memory: B's blocks are read contiguously; sums are in shared memory; records are written contiguously.
template <std::uint32_t Warps, std::uint32_t P, std::uint32_t M>
__global__ void __launch_bounds__(Warps * 32, 32 / Warps) mul_ranked(RankLaunch launch) {
  extern __shared__ __align__(16) std::uint32_t region[];  // sums, columns, buckets: rank_region_bytes
  __shared__ Round<Warps, P> round;
  __shared__ RankWindow taken;
  const std::uint32_t elements = M != 0 ? M * M : launch.product.m * launch.product.m;
  std::uint32_t* const columns = region + ((launch.slots + 1) * (elements + 1) + 3) / 4 * 4;
  if (threadIdx.x == 0) taken = window_of(launch, next_window(launch.scratch));
  while (true) {
    __syncthreads();  // the window is known, shared memory may be used again
    const RankWindow window = taken;
    const std::uint32_t count = window.num_c_blocks();
    if (count == 0) return;
    std::uint32_t ticket = 0;
    if (threadIdx.x == 0) ticket = next_window(launch.scratch);
    const Accumulators<M> sums(region, elements);
    multiply_window<P>(launch, window, sums, columns, round);
    RankWindow next;
    if (threadIdx.x == 0) next = window_of(launch, ticket);
    write_window<P>(launch, window, columns, sums);
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
RankShape shape_of(const RowProduct& product, bool has_short_rows) {
  const std::size_t bytes = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  const auto fits = [=](RankCta cta) { return cta.region_bytes + sizeof(UnitRound<kRankWideCta.warps, 8>) <= bytes; };
  RankCta cta = !has_short_rows ? kRankWideCta : product.m <= kRankTinySide ? kRankTinyCta : kRankShortCta;
  if (!fits(cta)) cta = kRankSmallestCta;
  return {.cta = cta, .slots = rank_slots(product.m, cta)};
}

}  // namespace

void launch_mul_ranked(const RowProduct& product, const CBlocksView& c_blocks, const RankScratch& scratch,
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
