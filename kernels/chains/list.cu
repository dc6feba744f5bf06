// The pairs of each C block by ascending inner index, and the pattern of C. Rows of A with few pairs are sorted by a
// warp; longer ones are walked, as often as shared memory asks for, by a warp or by a CTA.
#include <algorithm>
#include <utility>

#include "kernels/blocks/scan_terms.cuh"
#include "kernels/chains/grid.cuh"
#include "kernels/chains/launch.hpp"
#include "kernels/check.hpp"
#include "kernels/device_wide.cuh"
#include "kernels/grid.cuh"
#include "kernels/resident.hpp"
#include "kernels/warp.cuh"

namespace spmm::kernels {
namespace {

/// Positions of blocks in B.
struct Blocks {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

/// Those that A's block at position x meets.
__device__ inline Blocks met_blocks(const RowProduct& operands, std::uint32_t x) {
  const std::uint32_t row = operands.b_row_index[x];
  if (row == kNoRow) return {};
  return {operands.b.index.offsets[row], operands.b.index.offsets[row + 1]};
}

/// The pair of the blocks at positions x and y. Values: flag = kFirstOfBlock or 0.
__device__ inline Link link_of(const RowProduct& operands, std::uint32_t x, std::uint32_t y, std::uint32_t flag) {
  return {operands.a.number(x) | flag, operands.b.number(y)};
}

__device__ inline std::uint32_t lanes_below() {
  return (1u << threadIdx.x % 32) - 1;
}

/// Threads: one whole warp.
__device__ inline std::uint32_t exclusive_warp_sum(std::uint32_t value) {
  return inclusive_warp_sum(value) - value;
}

/// Block columns from the first to the last that some blocks of A meet.
struct Span {
  std::uint32_t begin = ~0u;
  std::uint32_t end = 0;

  /// Values: blocks = a whole row of B, or none.
  __device__ void add(const RowProduct& operands, Blocks blocks) {
    if (blocks.begin == blocks.end) return;
    begin = min(begin, operands.b.index.columns[blocks.begin]);
    end = max(end, operands.b.index.columns[blocks.end - 1] + 1);
  }
};

// Grid: eight lanes per row of A.
// Work: they add up the blocks of B that its blocks meet; the lists of walked rows are filled in any order.
// Memory: contiguous row indices, scattered offsets and columns of B.
__global__ void __launch_bounds__(kItemThreads)
    count_links(RowProduct operands, RowLinks rows, std::uint32_t sorted_pairs, std::uint32_t medium_pairs) {
  const std::uint32_t num_rows = operands.a.index.num_rows;
  const std::uint32_t row = this_warp() * 4 + threadIdx.x % 32 / kFewLanes;
  const std::uint32_t lane = threadIdx.x % kFewLanes;
  std::uint64_t sum = 0;
  Span span;
  if (row < num_rows) {
    for (std::uint32_t x = operands.a.index.offsets[row] + lane; x < operands.a.index.offsets[row + 1];
         x += kFewLanes) {
      const Blocks met = met_blocks(operands, x);
      sum += met.end - met.begin;
      span.add(operands, met);
    }
  }
#pragma unroll
  for (std::uint32_t step = kFewLanes / 2; step != 0; step /= 2) {
    sum += __shfl_xor_sync(~0u, sum, step);
    span.begin = min(span.begin, __shfl_xor_sync(~0u, span.begin, step));
    span.end = max(span.end, __shfl_xor_sync(~0u, span.end, step));
  }
  if (row < num_rows && lane == 0) {
    rows.num_pairs[row] = static_cast<std::uint32_t>(min(sum, std::uint64_t{~0u}));
    if (sum > medium_pairs) {
      rows.walked[num_rows - 1 - atomicAdd(&rows.totals->num_long, 1u)] = row;  // a place for each
    } else if (sum > sorted_pairs) {
      rows.walked[atomicAdd(&rows.totals->num_medium, 1u)] = row;  // a place for each
    }
  }
  const std::uint32_t widest = warp_max(sum > sorted_pairs ? span.end - span.begin : 0u);
  const std::uint32_t largest = warp_max(static_cast<std::uint32_t>(min(sum, std::uint64_t{~0u})));
  const std::uint64_t all = warp_total(lane == 0 ? sum : 0);
  if (threadIdx.x % 32 == 0 && all != 0) {  // totals are those of all warps
    atomicAdd(&rows.totals->num_pairs, static_cast<unsigned long long>(all));
    if (largest > rows.totals->max_row_pairs) atomicMax(&rows.totals->max_row_pairs, largest);
    if (widest > rows.totals->max_span) atomicMax(&rows.totals->max_span, widest);
  }
}

/// Columns are compared as floats where these are exact: their pipe is twice as wide, and subtracts and clamps at once.
constexpr std::uint32_t kMaxFloatColumns = (1u << 24) - 1;
__device__ inline void add_if_less(std::uint32_t& count, std::uint32_t x, std::uint32_t y) {
  count += x < y ? 1 : 0;
}
__device__ inline void add_if_less(float& count, float x, float y) {
  count += __saturatef(y - x);  // whole numbers: 0 or 1
}

// Grid: one warp per row of A; walked rows are left out.
// Work: the pairs of the row are expanded to shared memory in the order of the chains; the place of each in the order
// of
//       columns is counted, stably.
// Memory: rows of B by eight lanes each; the list is written by neighbouring lanes.
template <class Column>
__global__ void __launch_bounds__(kItemThreads) sort_links(RowProduct operands, LinkList list) {
  struct alignas(16) Four {
    Column at[4];
  };
  __shared__ Four all_columns[kItemWarps][kSortedRowLinks / 4 + 1];
  __shared__ Link all_links[kItemWarps][kSortedRowLinks];
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t row = this_warp();
  if (row >= operands.a.index.num_rows) return;
  Column* const columns = all_columns[threadIdx.x / 32]->at;
  Link* const links = all_links[threadIdx.x / 32];
  const std::uint32_t first = list.row_links[row];
  const std::uint32_t count = list.row_links[row + 1] - first;
  if (count > kSortedRowLinks) return;
  if (count == 0) {
    if (lane == 0) list.row_blocks[row] = 0;
    return;
  }
  const std::uint32_t a_end = operands.a.index.offsets[row + 1];
  std::uint32_t before = 0;
  for (std::uint32_t base = operands.a.index.offsets[row]; base < a_end; base += 32) {
    const Blocks met = base + lane < a_end ? met_blocks(operands, base + lane) : Blocks{};
    const std::uint32_t length = met.end - met.begin;
    const std::uint32_t at = before + exclusive_warp_sum(length);
    const std::uint32_t num = min(32u, a_end - base);
#pragma unroll 4
    for (std::uint32_t t = 0; t < num; t += 32 / kFewLanes) {
      const std::uint32_t s = t + lane / kFewLanes;
      const std::uint32_t s_begin = __shfl_sync(~0u, met.begin, s % 32);
      const std::uint32_t s_length = __shfl_sync(~0u, length, s % 32);
      const std::uint32_t s_at = __shfl_sync(~0u, at, s % 32);
      if (s >= num) continue;
      for (std::uint32_t l = lane % kFewLanes; l < s_length; l += kFewLanes) {
        columns[s_at + l] = static_cast<Column>(operands.b.index.columns[s_begin + l]);
        links[s_at + l] = {base + s, s_begin + l};
      }
    }
    before = __shfl_sync(~0u, at + length, 31);
  }
  if (lane < 4) columns[count + lane] = static_cast<Column>(~0u);  // behind all others
  __syncwarp();                                                    // pairs are expanded
  constexpr std::uint32_t kItems = kSortedRowLinks / 32;
  Column own[kItems];
  Column place[kItems];
  Link link[kItems];
#pragma unroll
  for (std::uint32_t i = 0; i < kItems; ++i) {
    const std::uint32_t x = lane + 32 * i;
    if (32 * i >= count) break;
    own[i] = x < count ? columns[x] : static_cast<Column>(~0u);
    if (x < count) link[i] = links[x];
    place[i] = static_cast<Column>(__popc(__match_any_sync(~0u, own[i]) & lanes_below()));
  }
  for (std::uint32_t j = 0; 32 * j < count; ++j) {
    const std::uint32_t end = min(count, 32 * j + 32);
    Column bound[kItems];  // of those before, equal columns count
#pragma unroll
    for (std::uint32_t i = 0; i < kItems; ++i) bound[i] = own[i] + static_cast<Column>(i > j ? 1 : 0);
    for (std::uint32_t y = 32 * j; y < end; y += 4) {
      const Four four = *reinterpret_cast<const Four*>(columns + y);
#pragma unroll
      for (std::uint32_t i = 0; i < kItems; ++i) {
        if (32 * i >= count) break;
#pragma unroll
        for (std::uint32_t z = 0; z < 4; ++z) add_if_less(place[i], four.at[z], bound[i]);
      }
    }
  }
  __syncwarp();  // all columns have been read
#pragma unroll
  for (std::uint32_t i = 0; i < kItems; ++i) {
    const std::uint32_t x = lane + 32 * i;
    if (x >= count) break;
    columns[static_cast<std::uint32_t>(place[i])] = own[i];
    links[static_cast<std::uint32_t>(place[i])] = link[i];
  }
  __syncwarp();  // columns and pairs are sorted
  std::uint32_t num_blocks = 0;
  for (std::uint32_t base = 0; base < count; base += 32) {
    const std::uint32_t x = base + lane;
    const bool is_first = x < count && (x == 0 || columns[x] != columns[x - 1]);
    if (x < count) list.links[first + x] = {links[x].a | (is_first ? kFirstOfBlock : 0), links[x].b};
    num_blocks += __popc(__ballot_sync(~0u, is_first));
  }
  if (lane == 0) list.row_blocks[row] = num_blocks;
}

// Grid: one warp per row of A; walked rows are left out.
// Work: C blocks of sorted pairs; pairs get the caller's numbers.
// Memory: contiguous pairs; scattered columns of B.
__global__ void __launch_bounds__(kItemThreads) fill_sorted_rows(RowProduct operands, LinkList list) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t row = this_warp();
  if (row >= operands.a.index.num_rows) return;
  const std::uint32_t first = list.row_links[row];
  const std::uint32_t end = list.row_links[row + 1];
  if (end - first > kSortedRowLinks) return;
  const bool is_renamed = operands.a.numbers != nullptr || operands.b.numbers != nullptr;
  std::uint32_t c_block = list.c_offsets[row];
  for (std::uint32_t base = first; base < end; base += 32) {
    const std::uint32_t x = base + lane;
    const Link link = x < end ? list.links[x] : Link{};
    const bool is_first = (link.a & kFirstOfBlock) != 0;
    const std::uint32_t firsts = __ballot_sync(~0u, is_first);
    if (is_first) {
      const std::uint32_t at = c_block + __popc(firsts & lanes_below());
      list.c_columns[at] = operands.b.index.columns[link.b];
      list.c_links[at] = x;
    }
    if (is_renamed && x < end) {
      list.links[x] = link_of(operands, link.a & ~kFirstOfBlock, link.b, link.a & kFirstOfBlock);
    }
    c_block += __popc(firsts);
  }
}

/// The warps that walk a row together: one, or a CTA.
template <std::uint32_t kWarps>
struct Team {
  static_assert(kWarps == 1 || kWarps == kItemWarps);
  static constexpr std::uint32_t kTeams = kItemWarps / kWarps;  // of a CTA
  static constexpr std::uint32_t kSize = 32 * kWarps;
  std::uint32_t number = threadIdx.x / kSize;
  std::uint32_t thread = threadIdx.x % kSize;
  std::uint32_t warp = thread / 32;
  std::uint32_t lane = threadIdx.x % 32;

  __device__ static void sync() {
    if constexpr (kWarps == 1) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  }
};

/// to[x] = start + get(0) + ... + get(x - 1); returns the sum of all. `to` may be what get reads.
/// Shapes: to [count], warp_sums [kWarps], shared. Threads: all of the team; barriers on both sides.
template <std::uint32_t kWarps, class Get>
__device__ std::uint32_t exclusive_sums(const Team<kWarps>& team, Get get, std::uint32_t* to, std::uint32_t count,
                                        std::uint32_t start, std::uint32_t* warp_sums) {
  team.sync();  // what get reads is complete, warp_sums has been read
  const std::uint32_t part = (count + team.kSize - 1) / team.kSize * 32;
  const std::uint32_t end = min(count, (team.warp + 1) * part);
  std::uint32_t all = 0;
  for (std::uint32_t x = team.warp * part + team.lane; x < end; x += 32) all += get(x);
  all = warp_total(all);
  if constexpr (kWarps > 1) {
    if (team.lane == 0) warp_sums[team.warp] = all;
    team.sync();  // warp_sums is written
    all = 0;
#pragma unroll
    for (std::uint32_t w = 0; w < kWarps; ++w) {
      if (w < team.warp) start += warp_sums[w];
      all += warp_sums[w];
    }
  }
  scan_by_warp(team.warp * part, end, start, get, [&](std::uint32_t x, std::uint32_t sum) { to[x] = sum; });
  team.sync();  // sums are complete
  return all;
}

/// Block columns of B.
struct ColumnRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  bool is_all = false;  // that the row meets
};

/// visit(x, y, column) for blocks of A at x = first, first + step, .. < a_end and the blocks of B at y, in a range of
/// columns, that they meet. x ascends; no two threads work on different x at a time. Threads: all of the team.
template <std::uint32_t kWarps, class Visit>
__device__ inline void for_each_link(const Team<kWarps>& team, const RowProduct& operands, std::uint32_t first,
                                     std::uint32_t a_end, std::uint32_t step, const ColumnRange& range, Visit visit) {
  constexpr std::uint32_t kAtOnce = 4;  // rows of B whose loads are in flight
  const std::uint32_t* const columns = operands.b.index.columns;
  for (std::uint32_t base = first; base < a_end; base += 32 * step) {
    Blocks own;
    if (base + team.lane * step < a_end) {
      own = met_blocks(operands, base + team.lane * step);
      if (!range.is_all) {
        own.begin = static_cast<std::uint32_t>(lower_bound(columns, own.begin, own.end, range.begin));
        own.end = static_cast<std::uint32_t>(lower_bound(columns, own.begin, own.end, range.end));
      }
    }
    const std::uint32_t num = min(32u, (a_end - base + step - 1) / step);
    for (std::uint32_t t = 0; t < num; t += kAtOnce) {
      std::uint32_t begin[kAtOnce];
      std::uint32_t end[kAtOnce];
      std::uint32_t column[kAtOnce];
#pragma unroll
      for (std::uint32_t u = 0; u < kAtOnce; ++u) {  // behind the last one: no blocks
        begin[u] = __shfl_sync(~0u, own.begin, (t + u) % 32) + team.thread;
        end[u] = __shfl_sync(~0u, own.end, (t + u) % 32);
        if (begin[u] < end[u]) column[u] = columns[begin[u]];
      }
#pragma unroll
      for (std::uint32_t u = 0; u < kAtOnce; ++u) {
        const std::uint32_t x = base + (t + u) * step;
        if (begin[u] < end[u]) visit(x, begin[u], column[u]);
        for (std::uint32_t y = begin[u] + team.kSize; y < end[u]; y += team.kSize) visit(x, y, columns[y]);
        team.sync();  // the next row of B may have the same columns
      }
    }
  }
}

/// The last word end > begin with ranks[end] - ranks[begin] <= most, or begin + 1. Shapes: ranks [words + 1],
/// ascending.
__device__ inline std::uint32_t words_end(const std::uint32_t* ranks, std::uint32_t begin, std::uint32_t words,
                                          std::uint32_t most) {
  if (ranks[words] - ranks[begin] <= most) return words;
  return partition_point(begin + 2, words, [=](std::uint32_t x) { return ranks[x] - ranks[begin] <= most; }) - 1;
}

__host__ __device__ constexpr std::uint32_t window_words(const ListWindow& window) {
  return 2 * window.words + 1 + window.ranks;
}

// Grid: a team per medium or long row of A.
// Work: a bitmap tells the columns of the row's C blocks, and the rank of each; pairs are counted by rank. Then the
//       team walks the inner index upwards, a row of B at a time: its columns are distinct, so that threads place their
//       pairs without atomics, and those of a C block lie in the order of its chain.
// Memory: rows of B contiguous; pairs scattered within the row's part of the list.
template <bool kFill, std::uint32_t kWarps>
__global__ void __launch_bounds__(kItemThreads, 4)
    walk_rows(RowProduct operands, const std::uint32_t* walked, std::uint32_t num_walked, ListWindow window,
              LinkList list) {
  extern __shared__ std::uint32_t list_windows[];
  __shared__ std::uint32_t all_sums[kItemWarps];
  __shared__ Span spans[kItemWarps];
  const Team<kWarps> team;
  if (blockIdx.x * team.kTeams + team.number >= num_walked) return;
  std::uint32_t* const bits = list_windows + team.number * window_words(window);  // [window.words]
  std::uint32_t* const ranks = bits + window.words;                               // [window.words + 1]
  std::uint32_t* const counts = ranks + window.words + 1;                         // [window.ranks]
  std::uint32_t* const warp_sums = all_sums + team.number * kWarps;
  const std::uint32_t row = walked[blockIdx.x * team.kTeams + team.number];
  const std::uint32_t a_begin = operands.a.index.offsets[row];
  const std::uint32_t a_end = operands.a.index.offsets[row + 1];
  const std::uint32_t first = list.row_links[row];
  // The bitmap of a row that needs one window lies where its pairs will be, from the first pass to the second.
  auto* const kept_bits = reinterpret_cast<std::uint32_t*>(list.links + first);
  if (team.thread == 0) spans[team.number] = {~0u, 0};
  team.sync();  // the span is empty
  Span own_span;
  for (std::uint32_t x = a_begin + team.thread; x < a_end; x += team.kSize) {
    own_span.add(operands, met_blocks(operands, x));
  }
  own_span = {warp_min(own_span.begin), warp_max(own_span.end)};
  if (team.lane == 0) {
    atomicMin(&spans[team.number].begin, own_span.begin);  // of all warps
    atomicMax(&spans[team.number].end, own_span.end);
  }
  team.sync();  // the span is complete
  const Span span = spans[team.number];
  std::uint32_t num_blocks = 0;  // of the windows before
  std::uint32_t num_pairs = 0;
  for (std::uint32_t low = span.begin; low < span.end;) {
    const std::uint32_t words = min(window.words, (span.end - low + 31) / 32);
    const std::uint32_t high = span.end - low <= words * 32 ? span.end : low + words * 32;
    const bool is_all = low == span.begin && high == span.end;
    const bool is_kept = is_all && words <= 2 * (list.row_links[row + 1] - first);
    if (kFill && is_kept) {
      for (std::uint32_t w = team.thread; w < words; w += team.kSize) bits[w] = kept_bits[w];
    } else {
      for (std::uint32_t w = team.thread; w < words; w += team.kSize) bits[w] = 0;
      team.sync();  // bits are clear
      for_each_link(Team<1>(), operands, a_begin + team.warp, a_end, kWarps, {low, high, is_all},
                    [&](std::uint32_t, std::uint32_t, std::uint32_t column) {
                      const std::uint32_t c = column - low;
                      atomicOr(&bits[c / 32], 1u << c % 32);  // several pairs have a C block or a word in common
                    });
    }
    const auto bits_of_word = [&](std::uint32_t w) { return static_cast<std::uint32_t>(__popc(bits[w])); };
    const std::uint32_t total = exclusive_sums(team, bits_of_word, ranks, words, 0, warp_sums);
    if (!kFill && is_kept) {
      for (std::uint32_t w = team.thread; w < words; w += team.kSize) kept_bits[w] = bits[w];
    }
    if constexpr (kFill) {
      if (team.thread == 0) ranks[words] = total;
      team.sync();  // ranks are complete
      const std::uint32_t c_first = list.c_offsets[row] + num_blocks;
      for (std::uint32_t w_begin = 0; w_begin < words && ranks[w_begin] < total;) {
        const std::uint32_t w_end = words_end(ranks, w_begin, words, window.ranks);
        const std::uint32_t r_begin = ranks[w_begin];
        const std::uint32_t num = ranks[w_end] - r_begin;
        const bool is_whole = is_all && w_begin == 0 && w_end == words;
        const auto rank_of = [&](std::uint32_t column) {
          const std::uint32_t c = column - low;
          return ranks[c / 32] + __popc(bits[c / 32] & ((1u << c % 32) - 1)) - r_begin;
        };
        for (std::uint32_t r = team.thread; r < num; r += team.kSize) counts[r] = 0;
        team.sync();  // counts are clear
        const ColumnRange range{low + w_begin * 32, low + w_end * 32, is_whole};
        for_each_link(Team<1>(), operands, a_begin + team.warp, a_end, kWarps, range,
                      [&](std::uint32_t, std::uint32_t, std::uint32_t column) {
                        atomicAdd(&counts[rank_of(column)], 1u);  // by all warps
                      });
        const auto count_of_rank = [&](std::uint32_t r) { return counts[r]; };
        const std::uint32_t placed = exclusive_sums(team, count_of_rank, counts, num, num_pairs, warp_sums);
        for (std::uint32_t w = w_begin + team.warp; w < w_end; w += kWarps) {
          if ((bits[w] >> team.lane & 1) == 0) continue;
          const std::uint32_t r = ranks[w] + __popc(bits[w] & lanes_below());
          list.c_columns[c_first + r] = low + w * 32 + team.lane;
          list.c_links[c_first + r] = first + counts[r - r_begin];
          counts[r - r_begin] |= kFirstOfBlock;
        }
        team.sync();  // counts are the places of first pairs
        for_each_link(team, operands, a_begin, a_end, 1, range,
                      [&](std::uint32_t x, std::uint32_t y, std::uint32_t column) {
                        const std::uint32_t r = rank_of(column);
                        const std::uint32_t count = counts[r];
                        list.links[first + (count & ~kFirstOfBlock)] = link_of(operands, x, y, count & kFirstOfBlock);
                        counts[r] = (count & ~kFirstOfBlock) + 1;
                      });
        num_pairs += placed;
        team.sync();  // counts have been read
        w_begin = w_end;
      }
    }
    num_blocks += total;
    low = high;
    team.sync();  // bits and ranks have been read
  }
  if (!kFill && team.thread == 0) list.row_blocks[row] = num_blocks;
}

// Grid: eight lanes per block row.
// Memory: contiguous reads and writes.
template <class Index>
__global__ void __launch_bounds__(kItemThreads)
    read_pattern(ArraysView from, std::uint32_t* offsets, std::uint32_t* columns, PatternFindings* findings) {
  const std::uint64_t row = this_warp() * std::uint64_t{4} + threadIdx.x % 32 / kFewLanes;
  if (row >= from.num_rows) return;
  const auto* const indptr = static_cast<const Index*>(from.indptr);
  const auto* const indices = static_cast<const Index*>(from.indices);
  const auto end_of = [&](std::uint64_t r) { return static_cast<std::uint64_t>(static_cast<std::int64_t>(indptr[r])); };
  const std::uint64_t begin = end_of(row);
  const std::uint64_t end = end_of(row + 1);
  if (begin > end || end > from.num_blocks || (row == 0 && begin != 0) ||
      (row + 1 == from.num_rows && end != from.num_blocks)) {
    atomicMin(&findings->bad_row, static_cast<unsigned long long>(row));  // the first one
    return;
  }
  for (std::uint64_t x = begin + threadIdx.x % kFewLanes; x < end; x += kFewLanes) {
    const Index column = indices[x];
    const bool is_good =
        column >= 0 && static_cast<std::uint64_t>(column) < from.num_columns && (x == begin || column > indices[x - 1]);
    if (!is_good) atomicMin(&findings->bad_index, static_cast<unsigned long long>(x));  // the first one
    columns[x] = static_cast<std::uint32_t>(column);
  }
  if (threadIdx.x % kFewLanes != 0) return;
  if (row == 0) offsets[0] = 0;
  offsets[row + 1] = static_cast<std::uint32_t>(end);
  const auto length = static_cast<std::uint32_t>(end - begin);
  if (length > findings->max_row_blocks) atomicMax(&findings->max_row_blocks, length);  // that of all rows
}

/// Rows of A: all, or those with 1 to most_pairs pairs, or those that are listed.
struct RowsToWalk {
  std::uint32_t count = 0;
  const std::uint32_t* num_pairs = nullptr;  // [count]; null: all
  std::uint32_t most_pairs = 0;
  const std::uint32_t* rows = nullptr;  // [count]
};

/// Some columns of a row of the pattern, each with a count. Shapes: columns, counts [slots], shared.
struct ColumnTable {
  static constexpr std::uint32_t kNone = ~0u;
  std::uint32_t slots = 0;  // a power of two; half of them stay empty
  std::uint32_t* columns = nullptr;
  std::uint32_t* counts = nullptr;

  [[nodiscard]] __device__ std::uint32_t next(std::uint32_t slot) const { return (slot + 1) & (slots - 1); }
  [[nodiscard]] __device__ std::uint32_t first(std::uint32_t column) const {
    return static_cast<std::uint32_t>(column * std::uint64_t{0x9E37'79B1u} >> 16) & (slots - 1);
  }
  /// kNone: the column is not there.
  [[nodiscard]] __device__ std::uint32_t find(std::uint32_t column) const {
    std::uint32_t slot = first(column);
    while (columns[slot] != column) {
      if (columns[slot] == kNone) return kNone;
      slot = next(slot);
    }
    return slot;
  }
  /// Values: a column that is not there.
  __device__ std::uint32_t add(std::uint32_t column) const {
    std::uint32_t slot = first(column);
    while (atomicCAS(&columns[slot], kNone, column) != kNone) slot = next(slot);  // several threads add
    return slot;
  }
};

// Grid: a team per row of A; long ones are walked by CTAs, all others by warps.
// Work: the row's C blocks are given, and lie in a table by their columns, some at a time. A's blocks are walked; pairs
//       whose column is there are counted or placed. They are placed as by walk_rows: inner index upwards, a row of B
//       at a time, whose columns are distinct. A pair is met in one window: the first begins before all columns, the
//       last ends behind them.
// Memory: rows of B contiguous; pairs scattered within the row's part of the list.
template <bool kFill, std::uint32_t kWarps>
__global__ void __launch_bounds__(kItemThreads, 4)
    walk_pattern_rows(RowProduct operands, RowsToWalk walked, PatternView pattern, std::uint32_t slots,
                      std::uint32_t* c_links, Link* links) {
  extern __shared__ std::uint32_t list_windows[];
  const Team<kWarps> team;
  std::uint32_t row = blockIdx.x * team.kTeams + team.number;
  if (row >= walked.count) return;
  if constexpr (kWarps == 1) {
    if (walked.num_pairs != nullptr && walked.num_pairs[row] - 1 >= walked.most_pairs) return;  // none, or too many
  } else {
    row = walked.rows[row];
  }
  std::uint32_t* const shared = list_windows + team.number * 2 * slots;
  const ColumnTable table{.slots = slots, .columns = shared, .counts = shared + slots};
  const std::uint32_t a_begin = operands.a.index.offsets[row];
  const std::uint32_t a_end = operands.a.index.offsets[row + 1];
  const std::uint32_t c_row = operands.a.index.rows[row];
  const std::uint32_t c_begin = pattern.offsets[c_row];
  const std::uint32_t c_end = pattern.offsets[c_row + 1];
  if (c_begin == c_end && pattern.missing == nullptr) return;
  std::uint32_t num_pairs = 0;  // of this thread
  std::uint32_t missing = ~0u;  // its first column that is not there
  std::uint32_t first = c_begin;
  do {
    const std::uint32_t last = min(c_end, first + slots / 2);
    const ColumnRange range{first == c_begin ? 0 : pattern.columns[first], last == c_end ? ~0u : pattern.columns[last],
                            first == c_begin && last == c_end};
    for (std::uint32_t s = team.thread; s < slots; s += team.kSize) table.columns[s] = ColumnTable::kNone;
    team.sync();  // the table is empty
    for (std::uint32_t x = first + team.thread; x < last; x += team.kSize) {
      table.counts[table.add(pattern.columns[x])] = kFill ? c_links[x] : 0;
    }
    team.sync();  // the table is complete
    if constexpr (kFill) {
      for_each_link(team, operands, a_begin, a_end, 1, range,
                    [&](std::uint32_t x, std::uint32_t y, std::uint32_t column) {
                      const std::uint32_t slot = table.find(column);
                      if (slot != ColumnTable::kNone) links[table.counts[slot]++] = link_of(operands, x, y, 0);
                    });
    } else {
      for_each_link(Team<1>(), operands, a_begin + team.warp, a_end, kWarps, range,
                    [&](std::uint32_t, std::uint32_t, std::uint32_t column) {
                      const std::uint32_t slot = table.find(column);
                      if (slot == ColumnTable::kNone) {
                        missing = min(missing, column);
                      } else {
                        atomicAdd(&table.counts[slot], 1u);  // by all warps
                        ++num_pairs;
                      }
                    });
      team.sync();  // pairs are counted
      for (std::uint32_t x = first + team.thread; x < last; x += team.kSize) {
        c_links[x] = table.counts[table.find(pattern.columns[x])];
      }
    }
    team.sync();  // the table has been read
    first = last;
  } while (first < c_end);
  if constexpr (!kFill) {
    const std::uint64_t all = warp_total(std::uint64_t{num_pairs});
    missing = warp_min(missing);
    if (team.lane == 0 && all != 0) atomicAdd(pattern.num_pairs, static_cast<unsigned long long>(all));  // of all rows
    if (team.lane == 0 && missing != ~0u && pattern.missing != nullptr) {
      atomicMin(pattern.missing, static_cast<unsigned long long>(c_row) << 32 | missing);  // the first of all
    }
  }
}

// Grid: one thread per block row and one more, or per C block.
// Work: a binary search for the first row of the list from there on; copies a block column.
// Memory: contiguous writes; scattered reads, the upper levels of which stay in cache.
template <class Index>
__global__ void __launch_bounds__(kItemThreads)
    expand_indices(LinkList list, const std::uint32_t* rows, std::uint32_t num_rows, std::uint64_t num_block_rows,
                   Index* indptr, Index* indices) {
  for_each_item(max(num_block_rows + 1, std::uint64_t{list.num_c_blocks}), [=](std::uint64_t x) {
    if (x < list.num_c_blocks) indices[x] = static_cast<Index>(list.c_columns[x]);
    if (x > num_block_rows) return;
    const std::uint64_t row = lower_bound(rows, 0, num_rows, static_cast<std::uint32_t>(x));
    indptr[x] = static_cast<Index>(list.c_offsets[row]);
  });
}

/// The window that `teams` of a CTA each have in shared memory: no larger than the rows ask for.
ListWindow fitting_window(ListWindow window, const RowsToList& rows, bool fills, std::uint64_t teams) {
  const std::uint64_t most_bytes = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin) - 1024;  // its own arrays
  window.words = std::min(window.words, (rows.totals.max_span + 31) / 32);
  window.ranks = fills ? std::min({window.ranks, rows.num_columns, rows.totals.max_row_pairs}) : 0;
  while (teams * window_words(window) * sizeof(std::uint32_t) > most_bytes) {
    window.words = (window.words + 1) / 2;
    window.ranks = (window.ranks + 1) / 2;
  }
  window.ranks = fills ? std::max(window.ranks, 32u) : 0;  // a word of the bitmap at least
  return window;
}

/// Shared memory of a CTA for a long row, so that the rows that are filled at a time have their pairs in L2: else each
/// would reach memory alone.
std::uint64_t shared_bytes_of_filling(const LinkTotals& totals, std::uint64_t least_bytes) {
  const std::uint64_t processors = device_attribute(cudaDevAttrMultiProcessorCount);
  const std::uint64_t list_bytes = device_attribute(cudaDevAttrL2CacheSize) * 4 / 5;
  const std::uint64_t all = device_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  const std::uint64_t mean_pairs = std::min<std::uint64_t>(totals.max_row_pairs, totals.num_pairs / totals.num_long);
  const std::uint64_t ctas = std::clamp<std::uint64_t>(list_bytes / (processors * mean_pairs * sizeof(Link)), 1, 8);
  const std::uint64_t most = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin) - 1024;
  return std::max(least_bytes, std::min(most, all / ctas / 1024 * 1024 - 2048));
}

template <bool kFill, std::uint32_t kWarps>
void launch_walk(const RowsToList& rows, const std::uint32_t* walked, std::uint32_t num_walked, const LinkList& list,
                 cudaStream_t stream) {
  if (num_walked == 0) return;
  constexpr std::uint32_t kTeams = kItemWarps / kWarps;
  const ListWindow wanted = kWarps == 1 ? rows.tuning.medium_window : rows.tuning.long_window;
  const ListWindow window = fitting_window(wanted, rows, kFill, kTeams);
  std::uint64_t shared_bytes = std::uint64_t{kTeams} * window_words(window) * sizeof(std::uint32_t);
  if (kFill && kWarps > 1) shared_bytes = shared_bytes_of_filling(rows.totals, shared_bytes);
  check(cudaFuncSetAttribute(walk_rows<kFill, kWarps>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(shared_bytes)),
        "dynamic shared memory");
  launch_ctas(walk_rows<kFill, kWarps>, (num_walked - 1) / kTeams + 1, shared_bytes, stream, "walk_rows", rows.operands,
              walked, num_walked, window, list);
}

template <bool kFill>
void launch_walks(const RowsToList& rows, const LinkList& list, cudaStream_t stream) {
  const auto& [num_medium, num_long] = std::pair(rows.totals.num_medium, rows.totals.num_long);
  launch_walk<kFill, 1>(rows, rows.walked, num_medium, list, stream);
  launch_walk<kFill, kItemWarps>(rows, rows.walked + rows.operands.a.index.num_rows - num_long, num_long, list, stream);
}

template <std::uint32_t kWarps>
void launch_pattern_walk(const RowsToList& rows, const RowsToWalk& walked, const PatternView& pattern,
                         std::uint32_t* c_links, Link* links, cudaStream_t stream) {
  if (walked.count == 0) return;
  constexpr std::uint32_t kTeams = kItemWarps / kWarps;
  constexpr std::uint32_t kFewestSlots = 64;
  const std::uint32_t most = kWarps == 1 ? rows.tuning.medium_slots : rows.tuning.long_slots;
  std::uint32_t slots = std::min(most, kFewestSlots);
  while (slots < most && slots / 2 < pattern.max_row_blocks) slots *= 2;
  const std::size_t shared_bytes = std::size_t{kTeams} * 2 * slots * sizeof(std::uint32_t);
  const auto walk = links == nullptr ? walk_pattern_rows<false, kWarps> : walk_pattern_rows<true, kWarps>;
  check(cudaFuncSetAttribute(walk, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)),
        "dynamic shared memory");
  launch_ctas(walk, (walked.count - 1) / kTeams + 1, shared_bytes, stream, "walk_pattern_rows", rows.operands, walked,
              pattern, slots, c_links, links);
}

/// CTAs with a warp for each row; 0 if all are walked.
std::uint64_t sorting_ctas(const RowsToList& rows) {
  const std::uint32_t num_rows = rows.operands.a.index.num_rows;
  const std::uint64_t num_walked = std::uint64_t{rows.totals.num_medium} + rows.totals.num_long;
  return num_walked == num_rows ? 0 : (num_rows - 1) / kItemWarps + 1;
}

}  // namespace

void launch_count_links(const RowProduct& operands, const RowLinks& rows, const ListTuning& tuning,
                        cudaStream_t stream) {
  const std::uint64_t num_rows = operands.a.index.num_rows;
  if (num_rows == 0) return;
  launch_ctas(count_links, (num_rows * kFewLanes - 1) / kItemThreads + 1, 0, stream, "count_links", operands, rows,
              tuning.sorted_pairs, tuning.medium_pairs);
}

std::size_t sums_workspace_bytes(std::uint64_t count) {
  return Scan<CountOfRow>::workspace_bytes(count + 1);
}

void launch_sum_counts(const std::uint32_t* counts, std::uint64_t count, std::uint32_t* sums, Workspace work,
                       cudaStream_t stream) {
  Scan<CountOfRow>::launch({counts, count}, count + 1, sums, work, stream, "sums of rows");
}

void launch_count_c_blocks(const RowsToList& rows, const LinkList& list, cudaStream_t stream) {
  const auto sort = rows.num_columns <= kMaxFloatColumns ? sort_links<float> : sort_links<std::uint32_t>;
  const std::uint64_t num_ctas = sorting_ctas(rows);
  if (num_ctas != 0) launch_ctas(sort, num_ctas, 0, stream, "sort_links", rows.operands, list);
  launch_walks<false>(rows, list, stream);
}

void launch_fill_links(const RowsToList& rows, const LinkList& list, cudaStream_t stream) {
  const std::uint64_t num_ctas = sorting_ctas(rows);
  if (num_ctas != 0) launch_ctas(fill_sorted_rows, num_ctas, 0, stream, "fill_sorted_rows", rows.operands, list);
  launch_walks<true>(rows, list, stream);
  check(cudaMemcpyAsync(list.c_links + list.num_c_blocks, list.row_links + rows.operands.a.index.num_rows,
                        sizeof(std::uint32_t), cudaMemcpyDeviceToDevice, stream),
        "last pair");
}

void launch_read_pattern(const ArraysView& from, std::uint32_t* offsets, std::uint32_t* columns,
                         PatternFindings* findings, cudaStream_t stream) {
  const auto read = from.index_bytes == 8 ? read_pattern<std::int64_t> : read_pattern<std::int32_t>;
  launch_ctas(read, (from.num_rows * kFewLanes - 1) / kItemThreads + 1, 0, stream, "read_pattern", from, offsets,
              columns, findings);
}

void launch_pattern_links(const RowsToList& rows, const PatternView& pattern, std::uint32_t* c_links, Link* links,
                          cudaStream_t stream) {
  const std::uint32_t num_rows = rows.operands.a.index.num_rows;
  const std::uint32_t num_long = rows.totals.num_long;
  const RowsToWalk by_warps{.count = num_long == num_rows ? 0 : num_rows,
                            .num_pairs = rows.num_pairs,
                            .most_pairs = rows.tuning.medium_pairs};
  launch_pattern_walk<1>(rows, by_warps, pattern, c_links, links, stream);
  launch_pattern_walk<kItemWarps>(rows, {.count = num_long, .rows = rows.walked + num_rows - num_long}, pattern,
                                  c_links, links, stream);
}

void launch_expand_indices(const LinkList& list, const std::uint32_t* rows, std::uint32_t num_rows,
                           const IndexArrays& to, cudaStream_t stream) {
  const unsigned num_ctas = item_grid(std::max<std::uint64_t>(to.num_rows + 1, list.num_c_blocks));
  const auto launch = [&]<class Index>(Index* indptr) {
    launch_ctas(expand_indices<Index>, num_ctas, 0, stream, "expand_indices", list, rows, num_rows, to.num_rows, indptr,
                static_cast<Index*>(to.indices));
  };
  if (to.index_bytes == 8) {
    launch(static_cast<std::int64_t*>(to.indptr));
  } else {
    launch(static_cast<std::int32_t*>(to.indptr));
  }
}

}  // namespace spmm::kernels
