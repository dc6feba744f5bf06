// Counts the elements of C that are at the limit, thread by thread, and adds them up.
#pragma once

#include <cstdint>

#include "kernels/warp.cuh"
#include "spmm/saturate.hpp"

namespace spmm::kernels {

/// What a thread has counted.
class SaturatedCount {
 public:
  __device__ void add(std::uint32_t element) { count_ += element == kMaxVal ? 1 : 0; }
  __device__ void add(std::uint64_t two) {
    add(static_cast<std::uint32_t>(two));
    add(static_cast<std::uint32_t>(two >> 32));
  }

  /// Raises *total, or does nothing where that is null. Threads: whole warps.
  __device__ void add_to(unsigned long long* total) const {
    if (total == nullptr) return;
    const std::uint32_t of_warp = warp_total(count_);
    if (of_warp != 0 && threadIdx.x % 32 == 0) atomicAdd(total, of_warp);  // across CTAs; most products have none
  }

 private:
  std::uint32_t count_ = 0;
};

}  // namespace spmm::kernels
