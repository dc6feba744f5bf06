// Stages of the tensor-core kernels: shared memory that one warp fills and two warpgroups multiply.
#pragma once

#include <cstdint>

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
