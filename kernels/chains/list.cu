// The pairs of each C block by ascending inner index, and the pattern of C. Rows of A with few pairs are sorted by a
// warp; longer ones are cut into pieces of some block columns, each of which a warp lists.
#include <algorithm>

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
// Work: they add up the blocks of B that its blocks meet; rows that are not sorted are cut into pieces of about equally
//       many columns. Pieces of a row are neighbours; rows come in any order.
// Memory: contiguous row indices, scattered offsets and columns of B.
__global__ void __launch_bounds__(kItemThreads) count_links(RowProduct operands, RowLinks rows, ListTuning tuning) {
  constexpr std::uint32_t kLeastMet = 4;     // blocks of B in a piece for each of A, on average
  constexpr std::uint32_t kMostColumns = 4;  // of a dense row for each pair
  const std::uint32_t row = this_warp() * 4 + threadIdx.x % 32 / kFewLanes;
  const std::uint32_t lane = threadIdx.x % kFewLanes;
  const bool is_row = row < operands.a.index.num_rows;
  const std::uint32_t begin = is_row ? operands.a.index.offsets[row] : 0;
  const std::uint32_t end = is_row ? operands.a.index.offsets[row + 1] : 0;
  std::uint32_t sum = 0;  // no more than blocks of B
  Span span;
  for (std::uint32_t x = begin + lane; x < end; x += kFewLanes) {
    const Blocks met = met_blocks(operands, x);
    sum += met.end - met.begin;
    span.add(operands, met);
  }
#pragma unroll
  for (std::uint32_t step = kFewLanes / 2; step != 0; step /= 2) {
    sum += __shfl_xor_sync(~0u, sum, step);
    span.begin = min(span.begin, __shfl_xor_sync(~0u, span.begin, step));
    span.end = max(span.end, __shfl_xor_sync(~0u, span.end, step));
  }
  std::uint32_t num_pieces = 0;
  std::uint32_t width = 0;
  if (sum > tuning.sorted_pairs) {
    const std::uint32_t wanted = 1 + min(sum / tuning.piece_pairs, sum / kLeastMet / (end - begin));
    width = ((span.end - span.begin - 1) / wanted / 32 + 1) * 32;
    num_pieces = (span.end - span.begin - 1) / width + 1;
  }
  const std::uint32_t through = inclusive_warp_sum(lane == 0 ? num_pieces : 0);
  std::uint32_t all_before = 0;
  if (threadIdx.x % 32 == 31 && through != 0) {
    all_before = atomicAdd(&rows.totals->num_pieces, through);  // a place for each
  }
  all_before = __shfl_sync(~0u, all_before, 31);
  const std::uint32_t first = all_before + __shfl_sync(~0u, through, threadIdx.x / kFewLanes * kFewLanes) - num_pieces;
  for (std::uint32_t x = lane; x < num_pieces; x += kFewLanes) {
    const std::uint32_t column = span.begin + x * width;
    rows.pieces[first + x] = {.row = row,
                              .column_begin = column,
                              .column_end = x + 1 == num_pieces ? span.end : column + width,
                              .num_before = x,
                              .is_row = num_pieces == 1,
                              .is_dense = (span.end - span.begin) / kMostColumns <= sum};
  }
  if (is_row && lane == 0) rows.num_pairs[row] = sum;
  const std::uint32_t widest = warp_max(width);
  const std::uint32_t largest = warp_max(sum);
  if (threadIdx.x % 32 == 0) {  // totals are those of all warps
    if (largest > rows.totals->max_row_pairs) atomicMax(&rows.totals->max_row_pairs, largest);
    if (widest > rows.totals->max_width) atomicMax(&rows.totals->max_width, widest);
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

// Grid: one warp per row of A; longer rows are left out.
// Work: the pairs of the row are expanded to shared memory in the order of the chains; the place of each in the order
//       of columns is counted, stably.
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
  if (count == 0 || count > kSortedRowLinks) {
    if (lane == 0) list.row_blocks[row] = 0;  // raised by pieces
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

/// The pairs of a row of A in some block columns. Threads: one whole warp.
struct RowPairs {
  static constexpr std::uint32_t kKeptBlocks = 256;  // of A: those that they meet are looked up once
  const RowProduct& operands;
  std::uint32_t a_begin;
  std::uint32_t a_end;
  Blocks* kept;  // [kKeptBlocks], shared
  std::uint32_t column_begin = 0;
  std::uint32_t column_end = 0;
  bool is_all = false;  // columns that the row meets

  /// First position in [low, end) whose column is not below `column`, which is near.
  [[nodiscard]] __device__ std::uint32_t find(std::uint32_t low, std::uint32_t end, std::uint32_t column) const {
    const std::uint32_t* const columns = operands.b.index.columns;
    std::uint32_t step = 8;
    while (step < end - low && columns[low + step] < column) {
      low += step + 1;
      step *= 2;
    }
    return static_cast<std::uint32_t>(lower_bound(columns, low, min(end, low + step), column));
  }

  [[nodiscard]] __device__ Blocks chosen(Blocks met) const {
    if (is_all) return met;
    met.begin = static_cast<std::uint32_t>(lower_bound(operands.b.index.columns, met.begin, met.end, column_begin));
    met.end = find(met.begin, met.end, column_end);
    return met;
  }

  /// Chooses the columns. Returns the pairs of the row that lie before.
  __device__ std::uint32_t choose(std::uint32_t begin, std::uint32_t end, bool all) {
    const bool is_same = begin == column_begin && column_end != 0;
    const bool is_next = begin == column_end && column_end != 0;
    column_begin = begin;
    column_end = end;
    is_all = all;
    __syncwarp();  // kept has been read
    std::uint32_t before = 0;
    for (std::uint32_t x = a_begin + threadIdx.x % 32; x < a_end; x += 32) {
      const Blocks met = met_blocks(operands, x);
      Blocks own = met;
      const bool is_kept = x - a_begin < kKeptBlocks;
      if (!all && is_kept && (is_same || is_next)) {
        own.begin = is_same ? kept[x - a_begin].begin : kept[x - a_begin].end;
        own.end = find(own.begin, met.end, end);
      } else {
        own = chosen(met);
      }
      before += own.begin - met.begin;
      if (is_kept) kept[x - a_begin] = own;
    }
    __syncwarp();  // kept is written
    return warp_total(before);
  }

  /// visit(x, y, column, is_pair) for blocks of A at x and B at y: 32 pairs at a time, in the order of the chains.
  /// Values: is_pair = false behind the last one, and nothing else counts then.
  template <class Visit>
  __device__ void for_each(const Visit& visit) const {
    constexpr std::uint32_t kAtOnce = 4;  // columns whose loads are in flight
    const std::uint32_t lane = threadIdx.x % 32;
    for (std::uint32_t base = a_begin; base < a_end; base += 32) {
      const std::uint32_t own_x = base + lane;
      Blocks own;
      if (own_x < a_end)
        own = own_x - a_begin < kKeptBlocks ? kept[own_x - a_begin] : chosen(met_blocks(operands, own_x));
      const std::uint32_t through = inclusive_warp_sum(own.end - own.begin);
      const std::uint32_t total = __shfl_sync(~0u, through, 31);
      for (std::uint32_t first = 0; first < total; first += 32 * kAtOnce) {
        std::uint32_t x[kAtOnce];
        std::uint32_t y[kAtOnce];
        std::uint32_t column[kAtOnce];
#pragma unroll
        for (std::uint32_t u = 0; u < kAtOnce; ++u) {
          const std::uint32_t p = first + 32 * u + lane;
          x[u] = 0;  // the first lane whose pairs end behind p
#pragma unroll
          for (std::uint32_t step = 16; step != 0; step /= 2) {
            if (__shfl_sync(~0u, through, x[u] + step - 1) <= p) x[u] += step;
          }
          y[u] = __shfl_sync(~0u, own.end - through, x[u]) + p;
          if (p < total) column[u] = operands.b.index.columns[y[u]];
        }
#pragma unroll
        for (std::uint32_t u = 0; u < kAtOnce; ++u) {
          if (first + 32 * u >= total) break;
          visit(base + x[u], y[u], column[u], first + 32 * u + lane < total);
        }
      }
    }
  }
};

/// Raises counts[x] by the lanes that have x; returns what it was and the lanes before that have it. What was its flag
/// goes to the first of them. Shapes: counts, shared. Values: x = kNone: none. Threads: one whole warp.
constexpr std::uint32_t kNone = ~0u;
__device__ inline std::uint32_t take_place(std::uint32_t* counts, std::uint32_t x) {
  const std::uint32_t peers = __match_any_sync(~0u, x);
  const std::uint32_t before = __popc(peers & lanes_below());
  const std::uint32_t count = x == kNone ? 0 : counts[x];
  __syncwarp();  // all have read
  if (x != kNone && peers >> threadIdx.x % 32 == 1) counts[x] = (count & ~kFirstOfBlock) + before + 1;
  __syncwarp();  // it is raised
  return before == 0 ? count : (count & ~kFirstOfBlock) + before;
}

/// The last word with get(word) <= most, or 1. Values: get ascends.
template <class Get>
__device__ inline std::uint32_t words_end(std::uint32_t words, std::uint32_t most, const Get& get) {
  if (get(words) <= most) return words;
  return partition_point(2u, words, [&](std::uint32_t w) { return get(w) <= most; }) - 1;
}

__host__ __device__ constexpr std::uint32_t window_words(const ListWindow& window) {
  return 2 * window.words + 1 + window.ranks + window.links;
}

// Grid: one warp per piece.
// Work: pairs are counted by column, and take their places in the order of the chains: in shared memory, if they fit.
//       Where columns are more than counts, a bitmap tells those of C blocks, and the rank of each. A piece with too
//       many columns, C blocks or pairs is listed in several turns.
// Memory: blocks of B that a block of A meets are contiguous, and so is a piece's part of the list.
__global__ void __launch_bounds__(kItemThreads, 4)
    list_pieces(RowProduct operands, ListPiece* pieces, std::uint32_t num_pieces, ListWindow window, LinkList list) {
  constexpr std::uint32_t kColumnBits = 15;  // of a turn: 2^10 words
  extern __shared__ std::uint32_t list_windows[];
  __shared__ Blocks all_kept[kItemWarps][RowPairs::kKeptBlocks];
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t warp = threadIdx.x / 32;
  if (this_warp() >= num_pieces) return;
  const ListPiece piece = pieces[this_warp()];
  std::uint32_t* const bits = list_windows + warp * window_words(window);  // [window.words]
  std::uint32_t* const ranks = bits + window.words;                        // [window.words + 1]
  std::uint32_t* const counts = ranks + window.words + 1;                  // [window.ranks]
  std::uint32_t* const placed = counts + window.ranks;                     // [window.links]
  const Blocks* const kept = all_kept[warp];
  const std::uint32_t a_begin = operands.a.index.offsets[piece.row];
  const std::uint32_t a_end = operands.a.index.offsets[piece.row + 1];
  RowPairs pairs{operands, a_begin, a_end, all_kept[warp]};
  std::uint32_t first_link = 0;
  std::uint32_t num_links = 0;
  std::uint32_t num_blocks = 0;  // of this lane
  const std::uint32_t turn_words = piece.is_dense ? min(window.words, window.ranks / 32) : window.words;
  std::uint32_t most_words = turn_words;
  for (std::uint32_t low = piece.column_begin; low < piece.column_end;) {
    std::uint32_t words = min(most_words, (piece.column_end - low + 31) / 32);
    std::uint32_t high = piece.column_end - low <= words * 32 ? piece.column_end : low + words * 32;
    const bool is_all = piece.is_row && low == piece.column_begin && high == piece.column_end;
    const std::uint32_t first = list.row_links[piece.row] + pairs.choose(low, high, is_all);
    if (low == piece.column_begin) first_link = first;
    most_words = turn_words;
    const auto shorten = [&](std::uint32_t fitting) {
      if (fitting == words) return;
      words = fitting;
      high = low + words * 32;
      pairs.choose(low, high, false);
      most_words = min(turn_words, 2 * words);  // the next ones probably have as many
    };
    const bool is_dense = words * 32 <= window.ranks;  // the rank of a column is its place
    if (!is_dense) {
      for (std::uint32_t w = lane; w < words; w += 32) bits[w] = 0;
      __syncwarp();  // bits are clear
      pairs.for_each([&](std::uint32_t, std::uint32_t, std::uint32_t column, bool is_pair) {
        if (is_pair) atomicOr(&bits[(column - low) / 32], 1u << (column - low) % 32);  // other lanes have the word, too
      });
      __syncwarp();  // bits are complete
      const std::uint32_t all = scan_by_warp(
          0, words, 0, [&](std::uint32_t w) { return static_cast<std::uint32_t>(__popc(bits[w])); },
          [&](std::uint32_t w, std::uint32_t before) { ranks[w] = before; });
      if (lane == 0) ranks[words] = all;
      __syncwarp();  // ranks are complete
      shorten(words_end(words, window.ranks, [&](std::uint32_t w) { return ranks[w]; }));
    }
    const auto rank_of_word = [&](std::uint32_t w) { return is_dense ? w * 32 : ranks[w]; };
    const auto rank_of = [&](std::uint32_t column) {
      const std::uint32_t c = column - low;
      return is_dense ? c : ranks[c / 32] + __popc(bits[c / 32] & ((1u << c % 32) - 1));
    };
    const std::uint32_t num = rank_of_word(words);
    for (std::uint32_t r = lane; r < num; r += 32) counts[r] = 0;
    __syncwarp();  // counts are clear
    pairs.for_each([&](std::uint32_t, std::uint32_t, std::uint32_t column, bool is_pair) {
      if (is_pair) atomicAdd(&counts[rank_of(column)], 1u);  // other lanes have it, too
    });
    __syncwarp();  // counts are complete
    const std::uint32_t all = scan_by_warp(
        0, num, 0, [&](std::uint32_t r) { return counts[r]; },
        [&](std::uint32_t r, std::uint32_t before) { counts[r] = before | kFirstOfBlock; });
    __syncwarp();  // counts are the places of first pairs
    const auto links_before = [&](std::uint32_t w) {
      return rank_of_word(w) == num ? all : counts[rank_of_word(w)] & ~kFirstOfBlock;
    };
    const std::uint32_t fitting = words_end(words, window.links, links_before);
    const std::uint32_t count = links_before(fitting);
    shorten(fitting);
    const bool is_staged = count <= window.links && a_end - a_begin <= RowPairs::kKeptBlocks;
    pairs.for_each([&](std::uint32_t x, std::uint32_t y, std::uint32_t column, bool is_pair) {
      const std::uint32_t taken = take_place(counts, is_pair ? rank_of(column) : kNone);
      if (!is_pair) return;
      const std::uint32_t flag = taken & kFirstOfBlock;
      const std::uint32_t place = taken & ~kFirstOfBlock;
      num_blocks += flag != 0 ? 1 : 0;
      if (is_staged) {
        placed[place] = flag | (x - a_begin) << kColumnBits | (y - kept[x - a_begin].begin);
      } else {
        list.links[first + place] = {x | flag, y};
      }
    });
    __syncwarp();  // all are placed
    for (std::uint32_t p = lane; is_staged && p < count; p += 32) {
      const std::uint32_t x = (placed[p] & ~kFirstOfBlock) >> kColumnBits;
      list.links[first + p] = {(placed[p] & kFirstOfBlock) | (a_begin + x),
                               kept[x].begin + (placed[p] & ((1u << kColumnBits) - 1))};
    }
    num_links += count;
    low = high;
    __syncwarp();  // bits, ranks, counts and places have been read
  }
  num_blocks = warp_total(num_blocks);
  if (lane != 0) return;
  pieces[this_warp()].first_link = first_link;
  pieces[this_warp()].num_links = num_links;
  pieces[this_warp()].num_blocks = num_blocks;
  atomicAdd(&list.row_blocks[piece.row], num_blocks);  // by all pieces
}

// Grid: one warp per row of A, cut ones are left out, and one per piece.
// Work: the C blocks of pairs in order; pairs get the caller's numbers.
// Memory: contiguous pairs; scattered columns of B.
template <class Index>
__global__ void __launch_bounds__(kItemThreads)
    fill_blocks(RowProduct operands, const ListPiece* pieces, std::uint32_t num_pieces, LinkList list, Index* indices) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t row = this_warp();
  std::uint32_t first = 0;
  std::uint32_t end = 0;
  std::uint32_t c_block = 0;
  if (row < operands.a.index.num_rows) {
    first = list.row_links[row];
    end = list.row_links[row + 1];
    if (end - first > kSortedRowLinks) return;
    c_block = list.c_offsets[row];
  } else if (row - operands.a.index.num_rows < num_pieces) {
    const ListPiece* const piece = pieces + (row - operands.a.index.num_rows);
    first = piece->first_link;
    end = first + piece->num_links;
    for (std::uint32_t x = lane + 1; x <= piece->num_before; x += 32) c_block += (piece - x)->num_blocks;
    c_block = list.c_offsets[piece->row] + warp_total(c_block);
  }
  const bool is_renamed = operands.a.numbers != nullptr || operands.b.numbers != nullptr;
  constexpr std::uint32_t kAtOnce = 4;  // pairs of a lane whose loads are in flight
  for (std::uint32_t base = first; base < end; base += 32 * kAtOnce) {
    Link links[kAtOnce];
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) {
      const std::uint32_t x = base + 32 * u + lane;
      links[u] = x < end ? list.links[x] : Link{};
    }
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) {
      const std::uint32_t x = base + 32 * u + lane;
      const std::uint32_t flag = links[u].a & kFirstOfBlock;
      const std::uint32_t firsts = __ballot_sync(~0u, flag != 0);
      if (flag != 0) {
        const std::uint32_t at = c_block + __popc(firsts & lanes_below());
        indices[at] = static_cast<Index>(operands.b.index.columns[links[u].b]);
        list.c_links[at] = x;
      }
      if (is_renamed && x < end) list.links[x] = link_of(operands, links[u].a & ~kFirstOfBlock, links[u].b, flag);
      c_block += __popc(firsts);
    }
  }
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

/// Some columns of a row of the pattern, each with a count. Shapes: columns, counts [slots], shared.
struct ColumnTable {
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

// Grid: one warp per piece, or per row of A.
// Work: the C blocks are given, and lie in a table by their columns, some at a time. Pairs whose column is there are
//       counted, or take their places in the order of the chains. A pair is met in one turn: the first begins before
//       all columns of the piece, the last ends behind them.
// Memory: blocks of B that a block of A meets are contiguous; pairs scattered within the row's part of the list.
template <bool kFill>
__global__ void __launch_bounds__(kItemThreads, 4)
    list_pattern(RowProduct operands, const ListPiece* pieces, std::uint32_t num_pieces, PatternView pattern,
                 std::uint32_t slots, std::uint32_t* c_links, Link* links) {
  extern __shared__ std::uint32_t list_windows[];
  __shared__ Blocks kept[kItemWarps][RowPairs::kKeptBlocks];
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t warp = threadIdx.x / 32;
  if (this_warp() >= num_pieces) return;
  const ListPiece piece =
      pieces != nullptr ? pieces[this_warp()] : ListPiece{.row = this_warp(), .column_end = kNone, .is_row = 1};
  std::uint32_t* const shared = list_windows + warp * 2 * slots;
  const ColumnTable table{.slots = slots, .columns = shared, .counts = shared + slots};
  const std::uint32_t c_row = operands.a.index.rows[piece.row];
  const auto c_block = [&](std::uint32_t column) {
    return static_cast<std::uint32_t>(
        lower_bound(pattern.columns, pattern.offsets[c_row], pattern.offsets[c_row + 1], column));
  };
  const std::uint32_t c_begin = c_block(piece.column_begin);
  const std::uint32_t c_end = c_block(piece.column_end);
  if (c_begin == c_end && pattern.missing == nullptr) return;
  RowPairs pairs{operands, operands.a.index.offsets[piece.row], operands.a.index.offsets[piece.row + 1], kept[warp]};
  std::uint32_t num_pairs = 0;    // of this lane
  std::uint32_t missing = kNone;  // its first column that is not there
  std::uint32_t first = c_begin;
  do {
    const std::uint32_t last = min(c_end, first + slots / 2);
    pairs.choose(first == c_begin ? piece.column_begin : pattern.columns[first],
                 last == c_end ? piece.column_end : pattern.columns[last],
                 piece.is_row && first == c_begin && last == c_end);
    for (std::uint32_t s = lane; s < slots; s += 32) table.columns[s] = kNone;
    __syncwarp();  // the table is empty
    for (std::uint32_t x = first + lane; x < last; x += 32) {
      table.counts[table.add(pattern.columns[x])] = kFill ? c_links[x] : 0;
    }
    __syncwarp();  // the table is complete
    pairs.for_each([&](std::uint32_t x, std::uint32_t y, std::uint32_t column, bool is_pair) {
      const std::uint32_t slot = is_pair ? table.find(column) : kNone;
      if constexpr (kFill) {
        const std::uint32_t place = take_place(table.counts, slot);
        if (slot != kNone) links[place] = link_of(operands, x, y, 0);
      } else if (slot != kNone) {
        atomicAdd(&table.counts[slot], 1u);  // other lanes have it, too
        ++num_pairs;
      } else if (is_pair) {
        missing = min(missing, column);
      }
    });
    __syncwarp();  // pairs are counted
    for (std::uint32_t x = first + lane; !kFill && x < last; x += 32) {
      c_links[x] = table.counts[table.find(pattern.columns[x])];
    }
    __syncwarp();  // the table has been read
    first = last;
  } while (first < c_end);
  if constexpr (!kFill) {
    const std::uint64_t all = warp_total(std::uint64_t{num_pairs});
    missing = warp_min(missing);
    if (lane == 0 && all != 0) atomicAdd(pattern.num_pairs, static_cast<unsigned long long>(all));  // of all pieces
    if (lane == 0 && missing != kNone && pattern.missing != nullptr) {
      atomicMin(pattern.missing, static_cast<unsigned long long>(c_row) << 32 | missing);  // the first of all
    }
  }
}

// Grid: one thread per block row and one more.
// Work: a binary search for the first row of the list from there on.
// Memory: contiguous writes; scattered reads, the upper levels of which stay in cache.
template <class Index>
__global__ void __launch_bounds__(kItemThreads)
    expand_offsets(const std::uint32_t* c_offsets, const std::uint32_t* rows, std::uint32_t num_rows,
                   std::uint64_t num_block_rows, Index* indptr) {
  for_each_item(num_block_rows + 1, [=](std::uint64_t x) {
    indptr[x] = static_cast<Index>(c_offsets[lower_bound(rows, 0, num_rows, static_cast<std::uint32_t>(x))]);
  });
}

/// launch(Index()) for the type of integers of index_bytes.
template <class Launch>
void with_index_type(std::uint32_t index_bytes, const Launch& launch) {
  if (index_bytes == 8) {
    launch(std::int64_t{});
  } else {
    launch(std::int32_t{});
  }
}

/// launch_ctas() with a warp for each item and words of shared memory for each.
template <class... Parameters, class... Arguments>
void launch_warps(void (*kernel)(Parameters...), std::uint64_t count, std::uint32_t words, cudaStream_t stream,
                  const char* what, const Arguments&... arguments) {
  if (count == 0) return;
  const std::size_t shared_bytes = std::size_t{kItemWarps} * words * sizeof(std::uint32_t);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)),
        "dynamic shared memory");
  launch_ctas(kernel, (count - 1) / kItemWarps + 1, shared_bytes, stream, what, arguments...);
}

/// No larger than the pieces ask for, and than a CTA may have.
ListWindow fitting_window(const RowsToList& rows) {
  const std::uint64_t most_words =
      (device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin) / sizeof(std::uint32_t) / kItemWarps) -
      (sizeof(Blocks) / sizeof(std::uint32_t) * RowPairs::kKeptBlocks + 32);  // its own arrays
  ListWindow window = rows.tuning.window;
  window.words = std::min(window.words, (rows.totals.max_width + 31) / 32);
  window.ranks = std::min({window.ranks, (rows.totals.max_width + 31) / 32 * 32, rows.totals.max_row_pairs});
  window.links = std::min(window.links, rows.totals.max_row_pairs);
  while (window_words(window) > most_words) {
    window.words = (window.words + 1) / 2;
    window.ranks = (window.ranks + 1) / 2;
    window.links = window.links / 2;
  }
  window.ranks = std::max(window.ranks, 32u);  // a word of the bitmap at least
  return window;
}

}  // namespace

void launch_count_links(const RowProduct& operands, const RowLinks& rows, const ListTuning& tuning,
                        cudaStream_t stream) {
  const std::uint64_t num_rows = operands.a.index.num_rows;
  if (num_rows == 0) return;
  launch_ctas(count_links, (num_rows * kFewLanes - 1) / kItemThreads + 1, 0, stream, "count_links", operands, rows,
              tuning);
}

std::size_t sums_workspace_bytes(std::uint64_t count) {
  return Scan<CountOfRow>::workspace_bytes(count + 1);
}

void launch_sum_counts(const std::uint32_t* counts, std::uint64_t count, std::uint32_t* sums, Workspace work,
                       cudaStream_t stream) {
  Scan<CountOfRow>::launch({counts, count}, count + 1, sums, work, stream, "sums of rows");
}

void launch_list_links(const RowsToList& rows, const LinkList& list, cudaStream_t stream) {
  const std::uint32_t num_rows = rows.operands.a.index.num_rows;
  const auto sort = rows.num_columns <= kMaxFloatColumns ? sort_links<float> : sort_links<std::uint32_t>;
  launch_warps(sort, num_rows, 0, stream, "sort_links", rows.operands, list);
  const ListWindow window = fitting_window(rows);
  launch_warps(list_pieces, rows.totals.num_pieces, window_words(window), stream, "list_pieces", rows.operands,
               rows.pieces, rows.totals.num_pieces, window, list);
}

void launch_fill_blocks(const RowsToList& rows, const LinkList& list, const IndexArrays& c, cudaStream_t stream) {
  const std::uint32_t num_rows = rows.operands.a.index.num_rows;
  with_index_type(c.index_bytes, [&]<class Index>(Index) {
    launch_warps(fill_blocks<Index>, std::uint64_t{num_rows} + rows.totals.num_pieces, 0, stream, "fill_blocks",
                 rows.operands, rows.pieces, rows.totals.num_pieces, list, static_cast<Index*>(c.indices));
  });
  check(cudaMemcpyAsync(list.c_links + list.num_c_blocks, list.row_links + num_rows, sizeof(std::uint32_t),
                        cudaMemcpyDeviceToDevice, stream),
        "last pair");
}

void launch_read_pattern(const ArraysView& from, std::uint32_t* offsets, std::uint32_t* columns,
                         PatternFindings* findings, cudaStream_t stream) {
  with_index_type(from.index_bytes, [&]<class Index>(Index) {
    launch_ctas(read_pattern<Index>, (from.num_rows * kFewLanes - 1) / kItemThreads + 1, 0, stream, "read_pattern",
                from, offsets, columns, findings);
  });
}

void launch_pattern_links(const RowsToList& rows, const PatternView& pattern, std::uint32_t* c_links, Link* links,
                          cudaStream_t stream) {
  constexpr std::uint32_t kFewestSlots = 64;
  const bool is_cut = rows.pieces != nullptr && rows.totals.max_width < rows.num_columns;
  const std::uint64_t most_blocks =  // of a piece, if those of a row are evenly spread; a piece with more takes turns
      is_cut ? std::uint64_t{pattern.max_row_blocks} * rows.totals.max_width / rows.num_columns
             : pattern.max_row_blocks;
  std::uint32_t slots = std::min(rows.tuning.slots, kFewestSlots);
  while (slots < rows.tuning.slots && slots / 2 < most_blocks) slots *= 2;
  const std::uint32_t count = rows.pieces == nullptr ? rows.operands.a.index.num_rows : rows.totals.num_pieces;
  launch_warps(links == nullptr ? list_pattern<false> : list_pattern<true>, count, 2 * slots, stream, "list_pattern",
               rows.operands, rows.pieces, count, pattern, slots, c_links, links);
}

void launch_expand_offsets(const std::uint32_t* c_offsets, const std::uint32_t* rows, std::uint32_t num_rows,
                           const IndexArrays& c, cudaStream_t stream) {
  with_index_type(c.index_bytes, [&]<class Index>(Index) {
    launch_ctas(expand_offsets<Index>, item_grid(c.num_rows + 1), 0, stream, "expand_offsets", c_offsets, rows,
                num_rows, c.num_rows, static_cast<Index*>(c.indptr));
  });
}

}  // namespace spmm::kernels
