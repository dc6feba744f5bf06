// For hypersparse products: every tile comes with the list of its pairs; a CTA multiplies some tiles and writes their
// records.
#include <algorithm>

#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/launch.hpp"
#include "kernels/sparse/pair_products.cuh"
#include "kernels/blocks/record_output.cuh"
#include "kernels/tuning.hpp"

namespace spmm::kernels {
namespace {

constexpr std::uint32_t kThreads = 256;
constexpr std::uint32_t kWarps = kThreads / 32;
constexpr std::uint32_t kSharedElements = 4096;  // of result blocks per CTA: 16 KB, eight CTAs per multiprocessor
constexpr std::uint32_t kMaxTiles = 256;         // of a CTA
static_assert(kMaxTiles <= TileFlags::kMaxTiles && kMaxTiles / 32 <= kThreads);

/// Tiles of a CTA.
__host__ __device__ constexpr std::uint32_t tiles_per_cta(std::uint32_t m) {
  const std::uint32_t tiles = kSharedElements / (m * m);
  return tiles == 0 ? 1 : tiles < kMaxTiles ? tiles : kMaxTiles;
}

/// Operands and pairs of one launch.
struct Lists {
  bool two_pairs_fit;  // the products of two pairs always fit 32 bits
  PairValues values;
  PairListView list;
  LongListsView long_lists;
  std::uint32_t max_length;  // pairs that are multiplied here; longer lists have their sums in long_lists
};

/// The tiles of one CTA and their pairs.
struct CtaTiles {
  static constexpr std::uint32_t kMaxPairs = 512;
  std::uint32_t num_tiles;
  std::uint32_t first_pair;
  const std::uint32_t* offsets;  // [num_tiles + 1], shared
  const BlockPair* near_pairs;   // [kMaxPairs], shared: pairs from first_pair on
  const BlockPair* pairs;        // all pairs of the launch
  std::uint32_t max_length;      // of a list

  [[nodiscard]] __device__ std::uint32_t begin(std::uint32_t tile) const { return offsets[tile]; }
  /// End of the pairs that are multiplied here: a long list has none.
  [[nodiscard]] __device__ std::uint32_t end(std::uint32_t tile) const {
    const std::uint32_t all = offsets[tile + 1];
    return all - offsets[tile] > max_length ? offsets[tile] : all;
  }
  [[nodiscard]] __device__ BlockPair pair(std::uint32_t p) const {
    return p - first_pair < kMaxPairs ? near_pairs[p - first_pair] : pairs[p];
  }
};

/// Fetches the lists of tiles [first, first + num_tiles), the pairs as far as there is room. All threads of the CTA
/// call it; at the end the lists are there. Shapes: offsets [num_tiles + 1], near_pairs [CtaTiles::kMaxPairs], shared.
__device__ inline CtaTiles fetch_lists(const Lists& lists, std::uint64_t first, std::uint32_t num_tiles,
                                       std::uint32_t* offsets, BlockPair* near_pairs) {
  for (std::uint32_t x = threadIdx.x; x <= num_tiles; x += kThreads) offsets[x] = lists.list.offsets[first + x];
  __syncthreads();  // offsets are there
  const std::uint32_t num_near = min(CtaTiles::kMaxPairs, offsets[num_tiles] - offsets[0]);
  for (std::uint32_t x = threadIdx.x; x < num_near; x += kThreads) near_pairs[x] = lists.list.pairs[offsets[0] + x];
  __syncthreads();  // pairs are there
  return {.num_tiles = num_tiles,
          .first_pair = offsets[0],
          .offsets = offsets,
          .near_pairs = near_pairs,
          .pairs = lists.list.pairs,
          .max_length = lists.max_length};
}

/// Tiles whose results wait in shared memory until it is known how many of those before them are zero.
struct StagedTiles : CtaTiles {
  std::uint32_t* results;  // [num_tiles, m, m], shared
  std::uint32_t elements;
  TileFlags& flags;

  [[nodiscard]] __device__ std::uint32_t* result(std::uint32_t tile) const { return results + tile * elements; }
  __device__ void flag(std::uint32_t tile) const {
    std::uint32_t& word = flags.words[tile / 32];
    const std::uint32_t bit = 1u << tile % 32;
    if ((word & bit) == 0) atomicOr(&word, bit);  // bits only get set: a stale read costs one atomic
  }
};

/// Tiles none of which is zero: results go straight to their records.
struct RecordTiles : CtaTiles {
  std::uint32_t* results;  // behind the head of the first tile's record, device
  std::uint32_t record_words;

  [[nodiscard]] __device__ std::uint32_t* result(std::uint32_t tile) const { return results + tile * record_words; }
  __device__ void flag(std::uint32_t /*tile*/) const {}
};

/// m = 4: half a warp per tile, lane -> an element.
template <class Tiles>
__device__ void multiply_tiles_4(const Lists& lists, const Tiles& tiles) {
  const std::uint32_t lane = threadIdx.x % 16;
  for (std::uint32_t tile = threadIdx.x / 16; tile < tiles.num_tiles; tile += kThreads / 16) {
    const std::uint32_t value = saturate(sum_pairs_4(lists.values, tiles, tiles.begin(tile), tiles.end(tile)));
    tiles.result(tile)[lane] = value;
    if (value != 0) tiles.flag(tile);
  }
}

/// m = 8: a warp per tile. The first two pairs of kAtOnce tiles are in flight together, for most lists are no longer.
template <class Tiles>
__device__ void multiply_tiles_8(const Lists& lists, const Tiles& tiles) {
  constexpr std::uint32_t kAtOnce = 4;
  const std::uint32_t lane = threadIdx.x % 32;
  for (std::uint32_t first = threadIdx.x / 32; first < tiles.num_tiles; first += kWarps * kAtOnce) {
    Terms8 terms[kAtOnce];
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) {
      const std::uint32_t tile = first + u * kWarps;
      if (tile >= tiles.num_tiles) break;
      terms[u] = load_terms_8(lists.values, tiles, tiles.begin(tile), tiles.end(tile));
    }
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) {
      const std::uint32_t tile = first + u * kWarps;
      if (tile >= tiles.num_tiles) break;
      __syncwarp();  // all lanes multiply together
      Sums8 products;
      products.add(terms[u]);
      const std::uint32_t next = tiles.begin(tile) + 2;
      const std::uint32_t end = tiles.end(tile);
      uint2 values{0, 0};
      if (lists.two_pairs_fit && next >= end) {
        values = uint2{products.small_sum(0), products.small_sum(1)};
      } else {
        std::uint64_t sums[2] = {products.sum(0), products.sum(1)};
        add_pairs_8(lists.values, tiles, next, end, sums);
        values = uint2{saturate(sums[0]), saturate(sums[1])};
      }
      reinterpret_cast<uint2*>(tiles.result(tile))[lane] = values;
      if (__any_sync(~0u, (values.x | values.y) != 0) && lane == 0) tiles.flag(tile);
    }
  }
}

/// m = 16, 32, 64: a warp per 16 rows of a tile, 8 columns at a time.
template <std::uint32_t M, class Tiles>
__device__ void multiply_tiles_wide(const Lists& lists, const Tiles& tiles) {
  constexpr std::uint32_t kStrips = M / 16;
  for (std::uint32_t x = threadIdx.x / 32; x < tiles.num_tiles * kStrips; x += kWarps) {
    const std::uint32_t tile = x / kStrips;
    const std::uint32_t row = x % kStrips * 16;
    const std::uint32_t begin = tiles.begin(tile);
    const std::uint32_t end = tiles.end(tile);
    bool any = false;
    for (std::uint32_t column = 0; column < M; column += 8) {
      std::uint64_t sums[4] = {};
      add_pairs_wide<M>(lists.values, tiles, begin, end, row, column, sums);
#pragma unroll
      for (std::uint32_t e = 0; e < 4; ++e) {
        const std::uint32_t value = saturate(sums[e]);
        tiles.result(tile)[(row + WideSums::row(e)) * M + column + WideSums::column(e)] = value;
        any |= value != 0;
      }
    }
    if (any) tiles.flag(tile);
  }
}

/// Any m: a warp per tile, one pass over the pairs for every 32 elements.
template <class Tiles>
__device__ void multiply_tiles_any_m(const Lists& lists, const Tiles& tiles, std::uint32_t m) {
  for (std::uint32_t tile = threadIdx.x / 32; tile < tiles.num_tiles; tile += kWarps) {
    const std::uint32_t begin = tiles.begin(tile);
    const std::uint32_t end = tiles.end(tile);
    for (std::uint32_t e = threadIdx.x % 32; e < m * m; e += 32) {
      const std::uint32_t value = saturate(sum_pairs_any_m(lists.values, tiles, begin, end, m, e));
      tiles.result(tile)[e] = value;
      if (value != 0) tiles.flag(tile);
    }
  }
}

/// Puts the results of long lists in their places. All threads of the CTA call it once all other results are there.
/// Values: first = number of the CTA's first tile.
template <class Tiles>
__device__ void take_long_sums(const LongListsView& lists, std::uint64_t first, const Tiles& tiles,
                               std::uint32_t elements) {
  const std::uint32_t count = *lists.count;
  const auto first_tile = static_cast<std::uint32_t>(first);
  for (std::uint64_t x = lower_bound<std::uint32_t>(lists.tiles, 0, count, first_tile); x < count; ++x) {
    const std::uint32_t tile = lists.tiles[x] - first_tile;
    if (tile >= tiles.num_tiles) break;
#pragma unroll 1  // rare: should not crowd the products out of the instruction cache
    for (std::uint32_t e = threadIdx.x; e < elements; e += kThreads) {
      const std::uint32_t value = saturate(lists.sums[x * elements + e]);
      tiles.result(tile)[e] = value;
      if (value != 0) tiles.flag(tile);
    }
  }
}

/// All results of a CTA. All its threads call it.
template <std::uint32_t M, class Tiles>
__device__ void multiply_tiles(const Lists& lists, std::uint64_t first, const Tiles& tiles, std::uint32_t m) {
  if constexpr (M == 4) {
    multiply_tiles_4(lists, tiles);
  } else if constexpr (M == 8) {
    multiply_tiles_8(lists, tiles);
  } else if constexpr (M >= 16) {
    multiply_tiles_wide<M>(lists, tiles);
  } else {
    multiply_tiles_any_m(lists, tiles, m);
  }
  if (lists.long_lists.tiles == nullptr) return;
  __syncthreads();  // the zeros that stand for long lists are there
  take_long_sums(lists.long_lists, first, tiles, m * m);
}

/// Tiles of the CTA whose first one is `first`.
__device__ inline std::uint32_t tiles_from(const Lists& lists, std::uint64_t first, std::uint32_t m) {
  return static_cast<std::uint32_t>(min(std::uint64_t{tiles_per_cta(m)}, lists.list.num_tiles - first));
}

// Grid: one CTA per tiles_per_cta tiles; places are handed out in result order.
// Work: the CTA fetches the pairs of its tiles; warps, or half warps, take tiles in turn, with sums in registers over
//       all pairs of a tile. Long lists were added up before: their sums are taken over. At the end the CTA writes the
//       records of its tiles.
// Memory: a pair is read as whole blocks by neighbouring lanes; results wait in shared memory for their place.
template <std::uint32_t M>
__global__ void __launch_bounds__(kThreads, M == 8 ? kResidentThreads / kThreads - 1 : 4)
    mul_pair_list(Lists lists, TilesView tiles, std::uint32_t run_time_m, RecordOutput out) {
  extern __shared__ __align__(16) std::uint32_t results[];  // [tiles of the CTA, m, m]
  __shared__ TileFlags flags;
  __shared__ BlockPair near_pairs[CtaTiles::kMaxPairs];
  __shared__ std::uint32_t offsets[kMaxTiles + 1];
  __shared__ std::uint16_t order[kMaxTiles];
  __shared__ uint2 indices[kMaxTiles];  // block row and column of each tile
  const std::uint32_t m = M != 0 ? M : run_time_m;
  if (threadIdx.x == 0) flags.cta = take_place(out);
  if (threadIdx.x < kMaxTiles / 32) flags.words[threadIdx.x] = 0;
  __syncthreads();  // everyone knows the place
  const std::uint64_t first = std::uint64_t{flags.cta} * tiles_per_cta(m);
  const std::uint32_t num_tiles = tiles_from(lists, first, m);
  for (std::uint32_t x = threadIdx.x; x < num_tiles; x += kThreads) {
    const Tile at = tile_at(tiles, first + x);
    indices[x] = uint2{out.rows[at.row], at.column};
  }
  const StagedTiles own{fetch_lists(lists, first, num_tiles, offsets, near_pairs), results, m * m, flags};
  multiply_tiles<M>(lists, first, own, m);
  __syncthreads();  // all results and flags are there
  if (threadIdx.x < 32) place_records(flags, num_tiles, out, gridDim.x);
  __syncthreads();  // the place is known
  order_records(flags, num_tiles, order);
  __syncthreads();  // the order is complete
  const auto value_at = [&](std::uint32_t tile, std::uint32_t x) {
    if constexpr (M != 0) {
      return reinterpret_cast<const uint2*>(results)[tile * (M * M / 2) + x];
    } else {
      return results[tile * m * m + x];
    }
  };
  const auto index_of = [&](std::uint32_t tile) { return indices[tile]; };
  write_records<M>(flags, order, m, out, value_at, index_of);
}

// Grid and work: the same where no tile is zero, so that its number is the number of its record.
// Memory: a warp writes a whole record, or half a warp; the neighbours' parts of its first and last sector meet in L2.
template <std::uint32_t M>
__global__ void __launch_bounds__(kThreads, M == 8 ? kResidentThreads / kThreads : 4)
    mul_full_pair_list(Lists lists, TilesView tiles, std::uint32_t run_time_m, RecordOutput out) {
  __shared__ BlockPair near_pairs[CtaTiles::kMaxPairs];
  __shared__ std::uint32_t offsets[kMaxTiles + 1];
  const std::uint32_t m = M != 0 ? M : run_time_m;
  const std::uint64_t first = std::uint64_t{blockIdx.x} * tiles_per_cta(m);
  const std::uint32_t num_tiles = tiles_from(lists, first, m);
  const std::uint32_t record_words = 2 + m * m;
  std::uint32_t* const records = out.records + first * record_words;
  for (std::uint32_t x = threadIdx.x; x < num_tiles; x += kThreads) {
    const Tile at = tile_at(tiles, first + x);
    records[x * record_words] = out.rows[at.row];
    records[x * record_words + 1] = at.column;
  }
  const RecordTiles own{fetch_lists(lists, first, num_tiles, offsets, near_pairs), records + 2, record_words};
  multiply_tiles<M>(lists, first, own, m);
  if (blockIdx.x == 0 && threadIdx.x == 0) *out.num_blocks = static_cast<std::uint32_t>(lists.list.num_tiles);
}

template <std::uint32_t M>
void launch(const Lists& lists, const TilesView& tiles, std::uint32_t m, bool can_be_zero, const RecordOutput& out,
            cudaStream_t stream) {
  const auto grid = static_cast<unsigned>((lists.list.num_tiles + tiles_per_cta(m) - 1) / tiles_per_cta(m));
  if (!can_be_zero) {
    mul_full_pair_list<M><<<grid, kThreads, 0, stream>>>(lists, tiles, m, out);
    return;
  }
  const std::size_t shared_bytes = std::size_t{tiles_per_cta(m)} * m * m * sizeof(std::uint32_t);
  check(cudaMemsetAsync(out.states, 0, (std::size_t{grid} + 1) * sizeof(std::uint64_t), stream), "clear places");
  mul_pair_list<M><<<grid, kThreads, shared_bytes, stream>>>(lists, tiles, m, out);
}

}  // namespace

void launch_mul_pair_list(const std::uint16_t* a_values, const std::uint16_t* b_values, const PairListView& list,
                          const LongListsView& long_lists, const TilesView& tiles, std::uint32_t m,
                          std::uint32_t max_element, bool can_be_zero, const RecordOutput& out, cudaStream_t stream) {
  if (list.num_tiles == 0) {
    check(cudaMemsetAsync(out.num_blocks, 0, sizeof(std::uint32_t), stream), "no records");
    return;
  }
  const std::uint64_t largest = std::uint64_t{2} * m * max_element * max_element;
  const Lists lists{.two_pairs_fit = largest <= kMaxVal,
                    .values = {.a = a_values, .b = b_values},
                    .list = list,
                    .long_lists = long_lists,
                    .max_length = long_lists.tiles == nullptr ? ~0u : kLongList};
  switch (m) {
    case 4:
      launch<4>(lists, tiles, m, can_be_zero, out, stream);
      break;
    case 8:
      launch<8>(lists, tiles, m, can_be_zero, out, stream);
      break;
    case 16:
      launch<16>(lists, tiles, m, can_be_zero, out, stream);
      break;
    case 32:
      launch<32>(lists, tiles, m, can_be_zero, out, stream);
      break;
    case 64:
      launch<64>(lists, tiles, m, can_be_zero, out, stream);
      break;
    default:
      launch<0>(lists, tiles, m, can_be_zero, out, stream);
  }
  check_launch("mul_pair_list");
}

}  // namespace spmm::kernels
