// Which claims of saturation a lower bound proves: products of high bytes on tensor cores, for the verifier.
// Source: PTX ISA, mma.sync.m16n8k32 with .u8 operands, ldmatrix, cp.async. Needs sm_80.
#include <algorithm>

#include "kernels/check.hpp"
#include "kernels/verify/launch.hpp"

namespace spmm::kernels {
namespace {

constexpr std::uint32_t kWarps = 8;  // 2 x 4 of 64 x 64 elements
constexpr std::uint32_t kThreads = 32 * kWarps;
constexpr std::uint32_t kStageDepth = 64;  // K bytes of a line
constexpr std::uint32_t kStages = 4;
constexpr std::uint32_t kStagesPerChunk = kBoundChunk / kStageDepth;
constexpr std::uint32_t kPieces = kStageDepth / 16;  // of 16 bytes in a line
constexpr std::uint32_t kWarpRows = 64;
constexpr std::uint32_t kWarpColumns = 64;
constexpr std::uint32_t kRowTiles = kWarpRows / 16;
constexpr std::uint32_t kColumnTiles = kWarpColumns / 8;
constexpr std::uint32_t kGroupRows = 16;  // row tiles whose CTAs follow each other: their columns of B stay in L2

struct alignas(128) Shared {
  std::uint8_t a[kStages][kBoundRows * kStageDepth];
  std::uint8_t b[kStages][kBoundColumns * kStageDepth];
  std::uint16_t chunks[kMaxBoundChunks];  // of K that both tiles use
  std::uint32_t num_chunks;
};

/// Sums of one thread. Layout: g = lane / 4, q = lane % 4; row tile x, column tile y: [0], [1] = row 16 x + g, columns
/// 8 y + 2 q and the next; [2], [3] = row 16 x + g + 8.
using Sums = std::uint32_t[kRowTiles][kColumnTiles][4];

/// Place of a 16-byte piece of a line in a stage: pieces that a quarter of a warp reads together, 8 lines of one
/// number, lie in different banks.
__device__ inline std::uint32_t piece_at(std::uint32_t line, std::uint32_t piece) {
  return line * kStageDepth + (piece ^ (line / 2 % kPieces)) * 16;
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

__device__ inline std::uint32_t shared_place(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ inline void load_fragments(std::uint32_t (&to)[4], const std::uint8_t* from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_place(from)));
}

__device__ inline void multiply_add(std::uint32_t (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b_low,
                                    std::uint32_t b_high) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_low), "r"(b_high));
}

/// Starts the copy of `Lines` lines of one stage. Threads: all of the CTA.
template <std::uint32_t Lines>
__device__ void fetch(std::uint8_t* to, const std::uint8_t* from, std::uint64_t depth) {
  for (std::uint32_t x = threadIdx.x; x < Lines * kPieces; x += kThreads) {
    const std::uint32_t line = x / kPieces;
    const std::uint32_t piece = x % kPieces;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_place(to + piece_at(line, piece))),
                 "l"(from + line * depth + piece * 16)
                 : "memory");
  }
}
__device__ inline void commit_fetches() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int Left>
__device__ void await_fetches() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
}

/// One stage: two steps of 32 bytes along K.
__device__ inline void multiply_stage(const std::uint8_t* a, const std::uint8_t* b, std::uint32_t first_row,
                                      std::uint32_t first_column, Sums& sums) {
  const std::uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (std::uint32_t step = 0; step < kStageDepth / 32; ++step) {
    std::uint32_t of_a[kRowTiles][4];
#pragma unroll
    for (std::uint32_t x = 0; x < kRowTiles; ++x) {  // 16 rows x 32 bytes: upper rows, lower rows, the same further on
      load_fragments(of_a[x], a + piece_at(first_row + 16 * x + lane % 16, 2 * step + lane / 16));
    }
#pragma unroll
    for (std::uint32_t y = 0; y < kColumnTiles; y += 2) {  // 16 columns x 32 bytes
      std::uint32_t of_b[4];
      load_fragments(of_b, b + piece_at(first_column + 8 * y + lane / 16 * 8 + lane % 8, 2 * step + lane / 8 % 2));
#pragma unroll
      for (std::uint32_t x = 0; x < kRowTiles; ++x) {
        multiply_add(sums[x][y], of_a[x], of_b[0], of_b[1]);
        multiply_add(sums[x][y + 1], of_a[x], of_b[2], of_b[3]);
      }
    }
  }
}

/// Where the sums of one thread belong.
struct Corner {
  std::uint32_t row;     // element row of the panel
  std::uint32_t column;  // line of B
};

/// Calls take(sum, word of the claim, bit) for the sums of a thread that lie in C.
template <class Take>
__device__ void for_sums(Sums& sums, const BoundClaims& claims, const Corner& corner, const Take& take) {
  std::uint32_t j[kColumnTiles][2];
#pragma unroll
  for (std::uint32_t y = 0; y < kColumnTiles; ++y) {
    for (std::uint32_t e = 0; e < 2; ++e) {
      j[y][e] = (claims.first_column + corner.column + 8 * y + e) / claims.m;
    }
  }
#pragma unroll
  for (std::uint32_t x = 0; x < kRowTiles; ++x) {
#pragma unroll
    for (std::uint32_t half = 0; half < 2; ++half) {
      const std::uint32_t i = (claims.first_row + corner.row + 16 * x + 8 * half) / claims.m;
      if (i >= claims.num_rows) continue;
      std::uint32_t* const words = claims.words + std::uint64_t{i} * claims.words_per_row;
#pragma unroll
      for (std::uint32_t y = 0; y < kColumnTiles; ++y) {
#pragma unroll
        for (std::uint32_t e = 0; e < 2; ++e) {
          if (j[y][e] < claims.blocks_per_side) {
            take(sums[x][y][2 * half + e], words + j[y][e] / 32, 1u << j[y][e] % 32);
          }
        }
      }
    }
  }
}

/// Sums of elements that are not claimed start as if they were large enough. Returns whether any is claimed.
__device__ bool start_sums(Sums& sums, const BoundClaims& claims, const Corner& corner) {
#pragma unroll
  for (std::uint32_t x = 0; x < kRowTiles; ++x) {
#pragma unroll
    for (std::uint32_t y = 0; y < kColumnTiles; ++y) {
#pragma unroll
      for (std::uint32_t e = 0; e < 4; ++e) sums[x][y][e] = kBoundDone;
    }
  }
  bool any = false;
  for_sums(sums, claims, corner, [&](std::uint32_t& sum, const std::uint32_t* word, std::uint32_t bit) {
    if ((*word & bit) == 0) return;  // another CTA may have cleared it: it need not be proven then
    sum = 0;
    any = true;
  });
  return any;
}

__device__ bool any_below(const Sums& sums, std::uint32_t limit) {
  bool any = false;
#pragma unroll
  for (std::uint32_t x = 0; x < kRowTiles; ++x) {
#pragma unroll
    for (std::uint32_t y = 0; y < kColumnTiles; ++y) {
#pragma unroll
      for (std::uint32_t e = 0; e < 4; ++e) any |= sums[x][y][e] < limit;
    }
  }
  return any;
}

__device__ void cut(Sums& sums) {
#pragma unroll
  for (std::uint32_t x = 0; x < kRowTiles; ++x) {
#pragma unroll
    for (std::uint32_t y = 0; y < kColumnTiles; ++y) {
#pragma unroll
      for (std::uint32_t e = 0; e < 4; ++e) sums[x][y][e] = min(sums[x][y][e], kBoundDone);
    }
  }
}

/// Lists the chunks of K in which both tiles hold blocks. Threads: all; ends with a barrier.
__device__ void list_chunks(Shared& shared, const std::uint8_t* used_a, const std::uint8_t* used_b,
                            std::uint32_t num_chunks) {
  if (threadIdx.x < 32) {
    std::uint32_t num = 0;
    for (std::uint32_t first = 0; first < num_chunks; first += 32) {
      const std::uint32_t x = first + threadIdx.x;
      const bool used = x < num_chunks && used_a[x] != 0 && used_b[x] != 0;
      const std::uint32_t ballot = __ballot_sync(0xFFFF'FFFFu, used);
      const std::uint32_t before = __popc(ballot & ((1u << threadIdx.x) - 1));
      if (used) shared.chunks[num + before] = static_cast<std::uint16_t>(x);
      num += __popc(ballot);
    }
    if (threadIdx.x == 0) shared.num_chunks = num;
  }
  __syncthreads();  // all read the list
}

/// Grid: a CTA per tile of kBoundRows x kBoundColumns elements, groups of kGroupRows row tiles, column by column.
/// Work: eight warps, 64 x 64 elements each, 128 sums per thread; ends when all that is claimed is proven.
/// Memory: 4 stages of 24 KB by cp.async, 16 bytes per thread, four threads to 64 successive bytes of a line.
__global__ void __launch_bounds__(kThreads, 1) prove_claims(BytePanel a, BytePanel b, BoundClaims claims) {
  extern __shared__ std::uint8_t memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  const auto row_tiles = static_cast<std::uint32_t>(a.num_lines / kBoundRows);
  const auto column_tiles = static_cast<std::uint32_t>(b.num_lines / kBoundColumns);
  const std::uint32_t group = blockIdx.x / (kGroupRows * column_tiles);
  const std::uint32_t in_group = blockIdx.x % (kGroupRows * column_tiles);
  const std::uint32_t rows_here = min(kGroupRows, row_tiles - group * kGroupRows);
  const std::uint32_t row_tile = group * kGroupRows + in_group % rows_here;
  const std::uint32_t column_tile = in_group / rows_here;
  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t first_row = warp / 4 * kWarpRows;
  const std::uint32_t first_column = warp % 4 * kWarpColumns;
  const Corner corner{.row = row_tile * kBoundRows + first_row + lane / 4,
                      .column = column_tile * kBoundColumns + first_column + lane % 4 * 2};
  Sums sums;
  const bool any = start_sums(sums, claims, corner);
  if (__syncthreads_or(any) == 0) {  // all leave together
    if (threadIdx.x == 0) atomicAdd(claims.num_done, 1u);
    return;
  }
  const auto num_chunks = static_cast<std::uint32_t>(a.depth / kBoundChunk);
  list_chunks(shared, a.used + std::uint64_t{row_tile} * num_chunks, b.used + std::uint64_t{column_tile} * num_chunks,
              num_chunks);
  const std::uint32_t num_stages = shared.num_chunks * kStagesPerChunk;
  const std::uint8_t* const lines_a = a.bytes + std::uint64_t{row_tile} * kBoundRows * a.depth;
  const std::uint8_t* const lines_b = b.bytes + std::uint64_t{column_tile} * kBoundColumns * b.depth;
  const auto start = [&](std::uint32_t stage) {
    if (stage < num_stages) {
      const std::uint64_t k =
          std::uint64_t{shared.chunks[stage / kStagesPerChunk]} * kBoundChunk + stage % kStagesPerChunk * kStageDepth;
      fetch<kBoundRows>(shared.a[stage % kStages], lines_a + k, a.depth);
      fetch<kBoundColumns>(shared.b[stage % kStages], lines_b + k, b.depth);
    }
    commit_fetches();  // empty ones keep the count
  };
  for (std::uint32_t stage = 0; stage + 1 < kStages; ++stage) start(stage);
  for (std::uint32_t stage = 0; stage < num_stages; ++stage) {
    await_fetches<kStages - 2>();
    __syncthreads();  // what others fetched is there, and no thread reads the stage that is filled next
    start(stage + kStages - 1);
    multiply_stage(shared.a[stage % kStages], shared.b[stage % kStages], first_row, first_column, sums);
    if ((stage + 1) % kStagesPerChunk != 0) continue;
    if ((stage + 1) % (kBoundTerms / kStageDepth) == 0) cut(sums);
    if (__syncthreads_or(any_below(sums, claims.limit)) == 0) break;  // all leave together
  }
  await_fetches<0>();
  for_sums(sums, claims, corner, [&](std::uint32_t& sum, std::uint32_t* word, std::uint32_t bit) {
    if (sum < claims.limit) atomicAnd(word, ~bit);  // other threads clear other bits of the word
  });
  __syncthreads();                                       // all have cleared what they had to
  if (threadIdx.x == 0) atomicAdd(claims.num_done, 1u);  // CTAs end in any order
}

#else

__global__ void prove_claims(BytePanel, BytePanel, BoundClaims) {}  // no tile is done

#endif

}  // namespace

void launch_prove_claims(const BytePanel& a, const BytePanel& b, const BoundClaims& claims, cudaStream_t stream) {
  const std::uint64_t num_ctas = bound_tiles(a, b);
  if (num_ctas == 0) return;
  check(cudaFuncSetAttribute(prove_claims, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared)),
        "prove_claims");
  prove_claims<<<static_cast<unsigned>(num_ctas), kThreads, sizeof(Shared), stream>>>(a, b, claims);
  check_launch("prove_claims");
}

}  // namespace spmm::kernels
