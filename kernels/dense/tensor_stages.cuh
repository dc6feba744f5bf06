// Stages of the tensor-core kernels: shared memory that one warp fills and two warpgroups multiply.
#pragma once

#include <cstdint>

#include "kernels/dense/arith.cuh"
#include "kernels/dense/hopper.cuh"
#include "kernels/dense/tensor_fragment.cuh"

namespace spmm::kernels::tensor {

constexpr std::uint32_t kDepth = 128;      // bytes along K per stage: a row of the 128-byte swizzle
constexpr std::uint32_t kStages = 4;       // 192 KB of the 227 KB that a CTA may have
constexpr std::uint32_t kConsumers = 256;  // threads that multiply; one more warpgroup fetches
constexpr std::uint32_t kThreads = kConsumers + 128;
constexpr std::uint32_t kCheckEvery = 16;  // stages between checks for a saturated tile: 2,048 terms, 3 % of the time
constexpr std::uint32_t kMaxStages = 65'536 / kDepth;  // of one sum: 65,536 * 255 * 255 < 2^32

struct __align__(1024) Stage {
  std::uint8_t a[kRows * kDepth];
  std::uint8_t b[kColumns * kDepth];
};

/// A tile of the result.
struct ResultTile {
  std::uint32_t row;
  std::uint32_t column;
};

/// Tile of this CTA: kTilesPerStrip tiles of rows share columns in L2.
__device__ inline ResultTile tile_of_cta(std::uint32_t tiles_down, std::uint32_t tiles_across) {
  const std::uint32_t strip = blockIdx.x / (kTilesPerStrip * tiles_across);
  const std::uint32_t height = min(kTilesPerStrip, tiles_down - strip * kTilesPerStrip);
  const std::uint32_t within = blockIdx.x - strip * kTilesPerStrip * tiles_across;
  return {.row = strip * kTilesPerStrip + within % height, .column = within / height};
}

/// Makes the barriers and the stop flag ready.
/// Threads: one.
template <class Shared>
__device__ void prepare_stages(Shared& shared) {
  for (std::uint32_t s = 0; s < kStages; ++s) {
    shared.full[s].init(1);
    shared.empty[s].init(kConsumers / 128);
  }
  shared.stop = 0;
  hopper::fence_barriers();
}

/// Fetches stage after stage of `num_passes` planes, one plane after the other (one pass: what the maps take at plane
/// 0), until all are there or the consumers are done.
/// Shared: has stages, full, empty and stop. Threads: one.
template <class Shared>
__device__ void fetch_stages(Shared& shared, const CUtensorMap& map_a, const CUtensorMap& map_b, const ResultTile& tile,
                             const Problem& problem, std::uint32_t num_passes) {
  std::uint32_t issued = 0;
  for (std::uint32_t plane = 0; plane < num_passes; ++plane) {
    for (std::uint32_t s = 0; s < problem.num_stages; ++s) {
      const std::uint32_t slot = issued % kStages;
      const std::uint32_t parity = (issued / kStages + 1) & 1;            // the first round finds all stages empty
      while (!shared.empty[slot].try_wait(parity) && shared.stop == 0) {  // both warpgroups have read the stage
      }
      if (shared.stop != 0) break;
      Stage& stage = shared.stages[slot];
      const std::uint32_t x = (problem.first_stage + s) * kDepth;
      shared.full[slot].arrive_expecting(sizeof(Stage));  // full once both boxes have landed
      hopper::copy_box(stage.a, &map_a, {x, 8 * plane, tile.row * (kRows / 8)}, shared.full[slot]);
      hopper::copy_box(stage.b, &map_b, {x, 8 * plane, tile.column * (kColumns / 8)}, shared.full[slot]);
      ++issued;
    }
  }
  // Copies must have landed before the CTA's shared memory is released.
  for (std::uint32_t x = issued < kStages ? 0 : issued - kStages; x < issued; ++x) {
    shared.full[x % kStages].wait(x / kStages & 1);
  }
}

/// Multiplies stages [first, end), which are empty again on return. One of `Arriving` threads says so.
/// Shared: has stages, full and empty.
template <std::uint32_t Arriving, class Shared>
__device__ void multiply_stages(Shared& shared, std::uint32_t (&d)[128], std::uint32_t warpgroup, std::uint32_t first,
                                std::uint32_t end) {
  const bool arrives = threadIdx.x % Arriving == 0;
  for (std::uint32_t x = first; x < end; ++x) {
    const std::uint32_t slot = x % kStages;
    shared.full[slot].wait(x / kStages & 1);  // the copies have landed
    const Stage& stage = shared.stages[slot];
    const std::uint64_t a = hopper::operand_descriptor(stage.a + warpgroup * 64 * kDepth);
    const std::uint64_t b = hopper::operand_descriptor(stage.b);
    hopper::wgmma_fence();
#pragma unroll
    for (std::uint32_t k = 0; k < kDepth / 32; ++k) hopper::wgmma_u8(d, a + k * 2, b + k * 2);
    hopper::wgmma_commit();
    hopper::wgmma_wait<1>();                                             // the stage before is done
    if (x > first && arrives) shared.empty[(x - 1) % kStages].arrive();  // may be refilled
  }
  hopper::wgmma_wait<0>();
  if (arrives) shared.empty[(end - 1) % kStages].arrive();  // may be refilled
}

}  // namespace spmm::kernels::tensor
