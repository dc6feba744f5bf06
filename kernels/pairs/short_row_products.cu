// Rows with few pairs, listed and multiplied in one go: a CTA takes a window of whole rows, sorts their pairs by C
// block in shared memory and multiplies them from there, so that no list goes through memory. For hypersparse products
// no C block of which can be zero.
#include "kernels/blocks/short_rows.cuh"
#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/pairs/launch.hpp"
#include "kernels/pairs/pair_products.cuh"
#include "kernels/tuning.hpp"

namespace spmm::kernels {
namespace {

constexpr std::uint32_t kThreads = kWindowThreads;
constexpr std::uint32_t kWarps = kThreads / 32;
/// Per multiprocessor: six leave 40 registers, and more of them spill.
constexpr std::uint32_t kCtas = kResidentThreads / kThreads < 5 ? kResidentThreads / kThreads : 5;

/// C blocks that a warp computes and writes together: with m = 8 their records are a whole number of sectors, and start
/// at one if their number is a multiple of this.
constexpr std::uint32_t kGroup = 4;
constexpr std::uint32_t kRecordPairs = 33;  // 64-bit words of a record: head, 32 pairs of elements
constexpr std::uint32_t kGroupVectors = kGroup * kRecordPairs / 2;  // 128-bit words of a group

/// What the CTA shares.
struct ShortRowState {
  Positions at;
  CBlockFlags flags;                          // a bit per position: the first pair of a C block
  std::uint16_t starts[kWindowCapacity + 1];  // position of the first pair of each C block; the end of the last one
  uint4 stage[kWarps][kGroupVectors];         // records of a group

  /// Pair number p of the window.
  [[nodiscard]] __device__ BlockPair pair(std::uint32_t p) const { return at.pairs[p]; }
};

/// Asks for the blocks of the first pair of each of those C blocks to come to L2, a sector per lane.
/// Threads: one whole warp.
__device__ inline void prefetch_group(const RowProduct& product, const ShortRowState& state, std::uint32_t first) {
  constexpr std::uint32_t kSectorElements = 32 / sizeof(std::uint16_t);
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t c_block = first + lane / 8;
  if (c_block >= state.flags.count) return;
  const BlockPair pair = state.pair(state.starts[c_block]);
  const bool is_b = lane % 8 >= 4;
  const std::uint16_t* const block =
      is_b ? product.b.values + std::uint64_t{pair.b} * 64 : product.a.values + std::uint64_t{pair.a} * 64;
  asm volatile("prefetch.global.L2 [%0];" ::"l"(block + lane % 4 * kSectorElements));
}

/// Multiplies the C blocks first, first + 1, ... of the CTA, as far as there are any, into the warp's stage. `first`
/// may be negative, wrapped around. All loads of the first two pairs of each are in flight together. Threads: one whole
/// warp.
__device__ void multiply_group(const RowProduct& product, const ShortRowState& state, std::uint32_t first,
                               uint2* stage) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t count = state.flags.count;
  Terms8 terms[kGroup];
  std::uint32_t has_more = 0;
#pragma unroll
  for (std::uint32_t u = 0; u < kGroup; ++u) {
    const std::uint32_t c_block = first + u;
    const std::uint32_t begin = c_block < count ? state.starts[c_block] : 0;
    const std::uint32_t end = c_block < count ? state.starts[c_block + 1] : 0;
    terms[u] = load_terms_8(product, state, begin, end);
    if (end - begin > 2) has_more |= 1u << u;
  }
  if (lane < kGroup && first + lane < count) {
    const std::uint32_t x = state.starts[first + lane];
    stage[lane * kRecordPairs] = uint2{state.at.rows[start_of(state.at.row_starts, x)], state.at.columns[x]};
  }
#pragma unroll
  for (std::uint32_t u = 0; u < kGroup; ++u) {
    const bool is_more = (has_more >> u & 1) != 0;
    const std::uint32_t next = is_more ? state.starts[first + u] + 2u : 0;
    const std::uint32_t end = is_more ? state.starts[first + u + 1] : 0;
    stage[u * kRecordPairs + 1 + lane] = multiply_terms_8(terms[u], product, state, next, end);
  }
}

/// Writes the records [begin, end) of a staged group one by one. Values: group = number of its first record.
/// Threads: one whole warp, once the records are complete.
__device__ inline void write_group(const RecordPlaces& to, std::uint64_t group, std::uint32_t begin, std::uint32_t end,
                                   const uint2* stage) {
  const std::uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (std::uint32_t u = 0; u < kGroup; ++u) {
    if (u < begin || u >= end) continue;
    reinterpret_cast<uint2*>(to.values + (group + u) * to.value_stride)[lane] = stage[u * kRecordPairs + 1 + lane];
  }
  if (lane < begin || lane >= end) return;
  *reinterpret_cast<uint2*>(to.heads + (group + lane) * to.head_stride) = stage[lane * kRecordPairs];
}

/// Multiplies all C blocks of the CTA and writes their records.
/// Memory: packed records of a group are written as whole sectors, 128 bits per lane; those of the CTA's first and last
///         group only as far as they are its own.
/// Threads: all of the CTA, once starts are listed.
__device__ void write_products(const RowProduct& product, ShortRowState& state, const RecordOutput& out) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint32_t lead = state.flags.first % kGroup;  // records of the first group that other CTAs write
  const std::uint32_t end = lead + state.flags.count;
  uint4* const stage = state.stage[warp];
  const std::uint64_t first_group = state.flags.first / kGroup;
  uint4* const records = reinterpret_cast<uint4*>(out.to.heads) + first_group * kGroupVectors;  // if packed
  for (std::uint32_t group = warp; group * kGroup < end; group += kWarps) {
    const std::uint32_t first = group * kGroup;
    prefetch_group(product, state, first + kWarps * kGroup - lead);
    multiply_group(product, state, first - lead, reinterpret_cast<uint2*>(stage));
    __syncwarp();  // the records are complete
    if (out.to.are_packed() && first >= lead && first + kGroup <= end) {
#pragma unroll
      for (std::uint32_t x = lane; x < kGroupVectors; x += 32)
        records[std::size_t{group} * kGroupVectors + x] = stage[x];
    } else {
      write_group(out.to, (first_group + group) * kGroup, first < lead ? lead - first : 0, min(kGroup, end - first),
                  reinterpret_cast<const uint2*>(stage));
    }
    __syncwarp();  // the stage has been read
  }
}

// Grid: one CTA per window of rows; windows are handed out in row order as CTAs start.
// Work: the CTA marks at which position each row and each block of A begins, sorts the pairs within rows, and learns by
//       look-back how many C blocks come before its own; a warp per four C blocks multiplies them.
// Memory: pairs stay in shared memory; a pair is read as whole blocks by neighbouring lanes; records leave as whole
//         sectors.
__global__ void __launch_bounds__(kThreads, kCtas)
    mul_short_rows(ShortRows rows, const std::uint32_t* first_row, RecordOutput out) {
  __shared__ ShortRowState state;
  if (!is_wanted(out)) return;
  const std::uint32_t num_pairs = sort_window(rows, first_row, out, state.at, state.flags).num_pairs;
  if (threadIdx.x < 32) find_output_offset(state.flags, num_pairs, out, gridDim.x);
  __syncthreads();  // C blocks are numbered, the output offset is known
  order_records(state.flags, num_pairs, state.starts, kThreads);
  if (threadIdx.x == 0) state.starts[state.flags.count] = static_cast<std::uint16_t>(num_pairs);
  __syncthreads();  // starts are listed
  write_products(rows.product, state, out);
}

}  // namespace

void launch_mul_short_rows(const RowProduct& product, const PanelPairs& panel, std::uint64_t max_row_pairs,
                           Workspace work, const RecordOutput& out, cudaStream_t stream) {
  const ShortRows rows{.product = product, .panel = panel, .names = product.a.index.rows};
  const Windows windows = launch_find_windows(rows, max_row_pairs, work, stream);
  RecordOutput to = out;
  to.look_back = windows.look_back;
  mul_short_rows<<<windows.count, kThreads, 0, stream>>>(rows, windows.first_row, to);
  check_launch("mul_short_rows");
}

}  // namespace spmm::kernels
