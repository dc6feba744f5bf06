// ESC, numeric phase: every C block comes with the list of its pairs; a CTA multiplies some C blocks and writes their
// records. For hypersparse products.
#include <algorithm>

#include "kernels/block_side.cuh"
#include "kernels/blocks/record_output.cuh"
#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/pairs/launch.hpp"
#include "kernels/pairs/pair_products.cuh"
#include "kernels/tuning.hpp"

namespace spmm::kernels {
namespace {

constexpr std::uint32_t kThreads = 256;
constexpr std::uint32_t kWarps = kThreads / 32;
constexpr std::uint32_t kSharedElements = 4096;  // of C blocks per CTA: 16 KB, eight CTAs per multiprocessor
constexpr std::uint32_t kMaxCBlocks = 256;       // of a CTA
static_assert(kMaxCBlocks <= CBlockFlags::kMaxCBlocks && kMaxCBlocks / 32 <= kThreads);

/// C blocks per CTA, if there must be room for their results in shared memory.
__host__ __device__ constexpr std::uint32_t c_blocks_per_cta(std::uint32_t m) {
  const std::uint32_t c_blocks = kSharedElements / (m * m);
  return c_blocks == 0 ? 1 : c_blocks < kMaxCBlocks ? c_blocks : kMaxCBlocks;
}

/// C blocks per CTA if results go straight to their records: enough that eight warps share the tiles of large ones
/// evenly.
__host__ __device__ constexpr std::uint32_t non_zero_blocks_per_cta(std::uint32_t m) {
  constexpr std::uint32_t kFewest = 4;
  const std::uint32_t c_blocks = c_blocks_per_cta(m);
  return c_blocks < kFewest ? kFewest : c_blocks;
}

/// CTAs per multiprocessor that registers must allow: tiles of larger blocks would spill 64 of them.
template <std::uint32_t P>
constexpr std::uint32_t esc_ctas(std::uint32_t most) {
  return P == 8 ? most : P <= 16 ? 4 : 3;
}

/// The C blocks of one CTA and their pairs.
struct CtaCBlocks {
  static constexpr std::uint32_t kMaxPairs = 512;
  std::uint32_t num_c_blocks;
  std::uint32_t first_pair;
  const std::uint32_t* offsets;  // [num_c_blocks + 1], shared
  const BlockPair* near_pairs;   // [kMaxPairs], shared: pairs from first_pair on
  const BlockPair* pairs;        // all pairs of the launch
  std::uint32_t max_length;      // pairs that are multiplied here; split-K blocks have more, and sums of their own

  [[nodiscard]] __device__ std::uint32_t begin(std::uint32_t c_block) const { return offsets[c_block]; }
  /// End of the pairs that are multiplied here; a split-K block has none.
  [[nodiscard]] __device__ std::uint32_t end(std::uint32_t c_block) const {
    const std::uint32_t all = offsets[c_block + 1];
    return all - offsets[c_block] > max_length ? offsets[c_block] : all;
  }
  [[nodiscard]] __device__ BlockPair pair(std::uint32_t p) const {
    return p - first_pair < kMaxPairs ? near_pairs[p - first_pair] : pairs[p];
  }
};

/// Loads the lists of C blocks [first, first + num_c_blocks), the pairs as far as there is room; at the end they are
/// complete.
/// Shapes: offsets [num_c_blocks + 1], near_pairs [CtaCBlocks::kMaxPairs], shared.
/// Threads: all of the CTA.
__device__ inline CtaCBlocks fetch_lists(const PairListView& list, std::uint64_t first, std::uint32_t num_c_blocks,
                                         std::uint32_t* offsets, BlockPair* near_pairs) {
  for (std::uint32_t x = threadIdx.x; x <= num_c_blocks; x += kThreads) offsets[x] = list.offsets[first + x];
  __syncthreads();  // offsets are complete
  const std::uint32_t num_near = min(CtaCBlocks::kMaxPairs, offsets[num_c_blocks] - offsets[0]);
  for (std::uint32_t x = threadIdx.x; x < num_near; x += kThreads) near_pairs[x] = list.pairs[offsets[0] + x];
  __syncthreads();  // near pairs are complete
  return {.num_c_blocks = num_c_blocks,
          .first_pair = offsets[0],
          .offsets = offsets,
          .near_pairs = near_pairs,
          .pairs = list.pairs,
          .max_length = list.split_k_sums == nullptr ? ~0u : kSplitKPairs};
}

/// C blocks whose results stay in shared memory until it is known how many of those before them are zero.
struct StagedCBlocks : CtaCBlocks {
  std::uint32_t* results;  // [num_c_blocks, m, m], shared
  std::uint32_t elements;
  CBlockFlags& flags;

  [[nodiscard]] __device__ std::uint32_t* result(std::uint32_t c_block) const { return results + c_block * elements; }
  __device__ void flag(std::uint32_t c_block) const { set_bit(flags.words, c_block); }
};

/// C blocks none of which is zero: results go straight to their records.
struct RecordCBlocks : CtaCBlocks {
  std::uint32_t* results;  // elements of the first C block's record, device
  std::uint32_t stride;

  [[nodiscard]] __device__ std::uint32_t* result(std::uint32_t c_block) const { return results + c_block * stride; }
  __device__ void flag(std::uint32_t /*c_block*/) const {}
};

/// Side 4: half a warp per C block, lane -> an element.
template <std::uint32_t M, class CBlocks>
__device__ void multiply_c_blocks_4(const RowProduct& product, const CBlocks& c_blocks, std::uint32_t m) {
  const std::uint32_t lane = threadIdx.x % 16;
  const bool is_element = M != 0 || (lane / 4 < m && lane % 4 < m);
  const std::uint32_t element = lane / 4 * m + lane % 4;
  for (std::uint32_t c_block = threadIdx.x / 16; c_block < c_blocks.num_c_blocks; c_block += kThreads / 16) {
    const std::uint32_t value =
        saturate(sum_pairs_4(product, c_blocks, c_blocks.begin(c_block), c_blocks.end(c_block)));
    if (is_element) c_blocks.result(c_block)[element] = value;
    if (value != 0) c_blocks.flag(c_block);
  }
}

/// Writes two neighbouring elements of a row, as far as they are no padding.
/// Shapes: result [m, m].
template <std::uint32_t M>
__device__ void put_pair(std::uint32_t* result, std::uint32_t row, std::uint32_t column, std::uint32_t m,
                         uint2 values) {
  if (M == 0 && (row >= m || column >= m)) return;
  std::uint32_t* const at = result + row * m + column;
  if (M != 0 || m % 2 == 0) {
    *reinterpret_cast<uint2*>(at) = values;
  } else {
    at[0] = values.x;
    if (column + 1 < m) at[1] = values.y;
  }
}

/// Side 8: a warp per C block. The first two pairs of kAtOnce C blocks are in flight together; most lists have no more.
template <std::uint32_t M, class CBlocks>
__device__ void multiply_c_blocks_8(const RowProduct& product, const CBlocks& c_blocks, std::uint32_t m) {
  constexpr std::uint32_t kAtOnce = 4;
  const std::uint32_t lane = threadIdx.x % 32;
  for (std::uint32_t first = threadIdx.x / 32; first < c_blocks.num_c_blocks; first += kWarps * kAtOnce) {
    Terms8 terms[kAtOnce];
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) {
      const std::uint32_t c_block = first + u * kWarps;
      if (c_block >= c_blocks.num_c_blocks) break;
      terms[u] = load_terms_8(product, c_blocks, c_blocks.begin(c_block), c_blocks.end(c_block));
    }
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) {
      const std::uint32_t c_block = first + u * kWarps;
      if (c_block >= c_blocks.num_c_blocks) break;
      const uint2 values =
          multiply_terms_8(terms[u], product, c_blocks, c_blocks.begin(c_block) + 2, c_blocks.end(c_block));
      put_pair<M>(c_blocks.result(c_block), Sums8::row(), Sums8::column(), m, values);
      if (__any_sync(~0u, (values.x | values.y) != 0) && lane == 0) c_blocks.flag(c_block);
    }
  }
}

/// Writes the results of a tile, or adds to those that are there.
/// Shapes: result [m, m]. Returns: whether this lane has a result that is not zero; padding is zero.
template <std::uint32_t P>
__device__ bool put_tile(const WarpTile<P>& tile, const TileSums<P>& sums, std::uint32_t m, bool adds,
                         std::uint32_t* result) {
  bool any = false;
#pragma unroll
  for (std::uint32_t r = 0; r < WarpTile<P>::kRows; ++r) {
#pragma unroll
    for (std::uint32_t c = 0; c < WarpTile<P>::kColumns; ++c) {
      const std::uint32_t row = tile.first_row + r * 8 + Sums8::row();
      const std::uint32_t column = tile.first_column + c * 8 + Sums8::column();
      std::uint64_t two[2] = {sums.eights[r][c].sum(0), sums.eights[r][c].sum(1)};
      if (adds && row < m && column < m) {
        two[0] += result[row * m + column];
        if (column + 1 < m) two[1] += result[row * m + column + 1];
      }
      const uint2 values{saturate(two[0]), saturate(two[1])};
      put_pair<0>(result, row, column, m, values);
      any |= (values.x | values.y) != 0;
    }
  }
  return any;
}

/// Side 16 and more: a warp per tile of a C block.
template <std::uint32_t P, class CBlocks>
__device__ void multiply_c_blocks_wide(const RowProduct& product, const CBlocks& c_blocks, std::uint32_t m) {
  using Tile = WarpTile<P>;
  constexpr std::uint32_t kMaxPairs = Sums8::kMaxTerms / P;
  for (std::uint32_t x = threadIdx.x / 32; x < c_blocks.num_c_blocks * Tile::kCount; x += kWarps) {
    const std::uint32_t c_block = x / Tile::kCount;
    const Tile tile(x % Tile::kCount);
    std::uint32_t* const result = c_blocks.result(c_block);
    const std::uint32_t begin = c_blocks.begin(c_block);
    const std::uint32_t end = c_blocks.end(c_block);
    bool any = false;
    std::uint32_t p = begin;
    do {  // once, unless the list is very long: later parts are added to what the same lanes wrote
      TileSums<P> sums;
      const std::uint32_t part_end = end - p > kMaxPairs ? p + kMaxPairs : end;
      add_pairs_tile<P>(product, c_blocks, p, part_end, tile, sums);
      any |= put_tile<P>(tile, sums, m, p != begin, result);
      p = part_end;
    } while (p < end);
    if (any) c_blocks.flag(c_block);
  }
}

/// Writes the results of split-K blocks.
/// Threads: all of the CTA, once all other results are written.
template <class CBlocks>
__device__ void take_split_k_sums(const std::uint64_t* sums, const CBlocks& c_blocks, std::uint32_t elements) {
#pragma unroll 1  // rare: unrolled, it would push the products out of the instruction cache
  for (std::uint32_t x = 0; x < c_blocks.num_c_blocks; ++x) {
    if (c_blocks.offsets[x + 1] - c_blocks.offsets[x] <= kSplitKPairs) continue;
#pragma unroll 1
    for (std::uint32_t e = threadIdx.x; e < elements; e += kThreads) {
      const std::uint32_t value = saturate(sums[split_k_slot(c_blocks.offsets[x]) * elements + e]);
      c_blocks.result(x)[e] = value;
      if (value != 0) c_blocks.flag(x);
    }
  }
}

/// All results of a CTA.
/// Threads: all of the CTA.
template <std::uint32_t P, std::uint32_t M, class CBlocks>
__device__ void multiply_c_blocks(const RowProduct& product, const std::uint64_t* split_k_sums, const CBlocks& c_blocks,
                                  std::uint32_t m) {
  if constexpr (P == 4) {
    multiply_c_blocks_4<M>(product, c_blocks, m);
  } else if constexpr (P == 8) {
    multiply_c_blocks_8<M>(product, c_blocks, m);
  } else {
    multiply_c_blocks_wide<P>(product, c_blocks, m);
  }
  if (split_k_sums == nullptr) return;
  __syncthreads();  // split-K blocks hold zeros, which other threads wrote
  take_split_k_sums(split_k_sums, c_blocks, m * m);
}

/// C blocks of the CTA whose first one is `first`.
__device__ inline std::uint32_t c_blocks_from(const PairListView& list, std::uint64_t first, std::uint32_t per_cta) {
  return static_cast<std::uint32_t>(min(std::uint64_t{per_cta}, list.num_c_blocks - first));
}

// Grid: one CTA per c_blocks_per_cta C blocks; they are handed out in result order as CTAs start.
// Work: the CTA loads the pairs of its C blocks; warps, or half warps, take C blocks or tiles of them in turn, with
//       sums in registers over all pairs. Split-K blocks were added up before. At the end the CTA writes the records of
//       its C blocks.
// Memory: a pair is read as whole blocks by neighbouring lanes; results stay in shared memory until their output offset
//         is known.
template <std::uint32_t P, std::uint32_t M>
__global__ void __launch_bounds__(kThreads, esc_ctas<P>(kResidentThreads / kThreads - 1))
    mul_esc(RowProduct product, PairListView list, CBlocksView c_blocks, RecordOutput out) {
  extern __shared__ __align__(16) std::uint32_t results[];  // [C blocks of the CTA, m, m]
  __shared__ CBlockFlags flags;
  __shared__ BlockPair near_pairs[CtaCBlocks::kMaxPairs];
  __shared__ std::uint32_t offsets[kMaxCBlocks + 1];
  __shared__ std::uint16_t order[kMaxCBlocks];
  __shared__ uint2 indices[kMaxCBlocks];  // block row and column of each C block
  const std::uint32_t m = M != 0 ? M : product.m;
  if (!is_wanted(out)) return;
  if (threadIdx.x == 0) flags.cta = take_cta_number(out);
  if (threadIdx.x < kMaxCBlocks / 32) flags.words[threadIdx.x] = 0;
  __syncthreads();  // flags.cta is written, flags are clear
  const std::uint64_t first = std::uint64_t{flags.cta} * c_blocks_per_cta(m);
  const std::uint32_t num_c_blocks = c_blocks_from(list, first, c_blocks_per_cta(m));
  for (std::uint32_t x = threadIdx.x; x < num_c_blocks; x += kThreads) {
    const CBlock at = c_block_at(c_blocks, first + x);
    indices[x] = uint2{out.rows[at.row], at.column};
  }
  const StagedCBlocks own{fetch_lists(list, first, num_c_blocks, offsets, near_pairs), results, m * m, flags};
  multiply_c_blocks<P, M>(product, list.split_k_sums, own, m);
  __syncthreads();  // results and flags are complete
  if (threadIdx.x < 32) find_output_offset(flags, num_c_blocks, out, gridDim.x);
  __syncthreads();  // the output offset is known
  order_records(flags, num_c_blocks, order, kThreads);
  __syncthreads();  // the order is complete
  const auto value_at = [&](std::uint32_t c_block, std::uint32_t e) { return results[c_block * m * m + e]; };
  const auto pair_at = [&](std::uint32_t c_block, std::uint32_t x) {
    return reinterpret_cast<const uint2*>(results)[c_block * (m * m / 2) + x];
  };
  const auto index_of = [&](std::uint32_t c_block) { return indices[c_block]; };
  write_records<M>(flags, order, m, out, RecordContent{value_at, pair_at, index_of});
}

// Grid: one CTA per non_zero_blocks_per_cta C blocks, none of which is zero, so that its number is the number of its
// record. Work: as mul_esc, without flags and look-back. Memory: a warp, or half a warp, writes a whole record; the
// parts of a sector that two records share combine in L2.
template <std::uint32_t P, std::uint32_t M>
__global__ void __launch_bounds__(kThreads, esc_ctas<P>(kResidentThreads / kThreads))
    mul_esc_non_zero(RowProduct product, PairListView list, CBlocksView c_blocks, RecordOutput out) {
  __shared__ BlockPair near_pairs[CtaCBlocks::kMaxPairs];
  __shared__ std::uint32_t offsets[kMaxCBlocks + 1];
  if (!is_wanted(out)) return;
  const std::uint32_t m = M != 0 ? M : product.m;
  const std::uint64_t first = std::uint64_t{blockIdx.x} * non_zero_blocks_per_cta(m);
  const std::uint32_t num_c_blocks = c_blocks_from(list, first, non_zero_blocks_per_cta(m));
  const std::uint32_t before = records_of_panels_before(out);
  const std::uint64_t record = before + first;
  std::uint32_t* const heads = out.to.heads + record * out.to.head_stride;
  for (std::uint32_t x = threadIdx.x; x < num_c_blocks; x += kThreads) {
    const CBlock at = c_block_at(c_blocks, first + x);
    heads[x * out.to.head_stride] = out.rows[at.row];
    heads[x * out.to.head_stride + 1] = at.column;
  }
  const RecordCBlocks own{fetch_lists(list, first, num_c_blocks, offsets, near_pairs),
                          out.to.values + record * out.to.value_stride, out.to.value_stride};
  multiply_c_blocks<P, M>(product, list.split_k_sums, own, m);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *out.num_blocks = before + static_cast<std::uint32_t>(list.num_c_blocks);
  }
}

template <std::uint32_t P, std::uint32_t M>
void launch(const RowProduct& product, const PairListView& list, const CBlocksView& c_blocks, const RecordOutput& out,
            cudaStream_t stream) {
  const std::uint32_t m = product.m;
  const std::uint32_t per_cta = product.can_be_zero ? c_blocks_per_cta(m) : non_zero_blocks_per_cta(m);
  const auto grid = static_cast<unsigned>((list.num_c_blocks + per_cta - 1) / per_cta);
  if (!product.can_be_zero) {
    mul_esc_non_zero<P, M><<<grid, kThreads, 0, stream>>>(product, list, c_blocks, out);
    return;
  }
  const std::size_t shared_bytes = std::size_t{c_blocks_per_cta(m)} * m * m * sizeof(std::uint32_t);
  const std::size_t num_states = std::size_t{grid} + 1;
  check(cudaMemsetAsync(out.look_back, 0, num_states * sizeof(std::uint64_t), stream), "clear look-back states");
  mul_esc<P, M><<<grid, kThreads, shared_bytes, stream>>>(product, list, c_blocks, out);
}

}  // namespace

void launch_mul_esc(const RowProduct& product, const PairListView& list, const CBlocksView& c_blocks,
                    const RecordOutput& out, cudaStream_t stream) {
  if (list.num_c_blocks == 0) {
    launch_no_records(out, stream);
    return;
  }
  for_row_sides(product.m, [&](auto side, auto m) {
    launch<decltype(side)::value, decltype(m)::value>(product, list, c_blocks, out, stream);
  });
  check_launch("mul_esc");
}

}  // namespace spmm::kernels
