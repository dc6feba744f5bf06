// The product of a list of pairs into one C block by a whole CTA: the arithmetic shared by the kernels that differ in
// how they find pairs.
#pragma once

#include <cstdint>

#include "kernels/block_side.cuh"
#include "kernels/row_dot.cuh"
#include "kernels/views.hpp"
#include "spmm/saturate.hpp"
#include "spmm/types.hpp"

namespace spmm::kernels {

/// How one CTA covers one C block.
/// M: block side, 0 = run-time m. Threads: CTA size. PerThread: elements per thread.
template <std::uint32_t M, std::uint32_t Threads, std::uint32_t PerThread>
struct CtaShape {
  static constexpr std::uint32_t kM = M;
  static constexpr std::uint32_t kThreads = Threads;
  static constexpr std::uint32_t kPerThread = PerThread;
  /// Groups of threads that each take every kGroups-th pair of the same block (small blocks only).
  static constexpr std::uint32_t kGroups = M != 0 && M * M < Threads ? Threads / (M * M) : 1;
  /// Bytes of shared memory for staged operands.
  static constexpr std::uint32_t kStageBytes = M == 32                  ? 8192
                                               : M == 0 && Threads > 64 ? 4 * kMaxBlockDim* kMaxBlockDim
                                                                        : 2048;
};

/// Sums of one C block, spread over a CTA.
template <class Shape>
class BlockProduct {
 public:
  /// Shapes: stage [Shape::kStageBytes] shared, 16-byte aligned; a_values, b_values [nnzb, m, m] (B transposed).
  __device__ BlockProduct(const std::uint16_t* a_values, const std::uint16_t* b_values, std::uint32_t m,
                          std::uint16_t* stage)
      : a_values_(a_values), b_values_(b_values), m_(m), stage_(stage) {}

  /// Adds the products of all listed pairs.
  /// Shapes: pairs [num_pairs], shared or global.
  /// Threads: all of the CTA.
  __device__ void add(const BlockPair* pairs, std::uint32_t num_pairs) {
    const std::uint32_t elements = side() * side();
    const std::uint32_t batch = Shape::kStageBytes / (4 * elements);  // pairs staged at a time
    for (std::uint32_t first = 0; first < num_pairs; first += batch) {
      const std::uint32_t count = min(batch, num_pairs - first);
      stage_pairs(pairs + first, count);
      __syncthreads();  // operands are complete
      for (std::uint32_t p = group(); p < count; p += Shape::kGroups) {
        multiply(stage_ + p * 2 * elements, stage_ + (p * 2 + 1) * elements);
      }
      __syncthreads();  // the stage has been read: it may be refilled
    }
  }

  /// True when every element of the CTA's block is saturated; with several groups, when each group's share is.
  __device__ bool is_saturated() const {
    bool all = true;
    for (std::uint32_t x = 0; x < Shape::kPerThread; ++x) all &= !owns(x) || sums_[x] >= kMaxVal;
    return __syncthreads_and(all) != 0;  // all threads leave the loop together
  }

  /// Merges the groups, saturates, writes the block and its flag.
  /// Shapes: values [m, m] and flag [1], device.
  /// Threads: all of the CTA.
  __device__ void store(std::uint32_t* values, std::uint8_t* flag) {
    if constexpr (Shape::kGroups > 1) merge_groups();
    bool any = false;
    for (std::uint32_t x = 0; x < Shape::kPerThread; ++x) {
      if (group() != 0 || !owns(x)) continue;
      const std::uint32_t value = saturate(sums_[x]);
      values[element(x)] = value;
      any |= value != 0;
    }
    const bool block_any = __syncthreads_or(any) != 0;  // one flag for all threads' elements
    if (threadIdx.x == 0) *flag = block_any ? 1 : 0;
  }

 private:
  __device__ std::uint32_t side() const { return Shape::kM != 0 ? Shape::kM : m_; }
  __device__ std::uint32_t group() const { return Shape::kGroups == 1 ? 0 : threadIdx.x / (Shape::kM * Shape::kM); }
  __device__ std::uint32_t element(std::uint32_t x) const {
    return (Shape::kGroups == 1 ? threadIdx.x : threadIdx.x % (Shape::kM * Shape::kM)) + x * Shape::kThreads;
  }
  __device__ bool owns(std::uint32_t x) const { return element(x) < side() * side(); }

  /// Copies pairs to shared memory: A's block, then B's, each contiguous; 16 bytes per thread if m allows.
  __device__ void stage_pairs(const BlockPair* pairs, std::uint32_t count) {
    const std::uint32_t elements = side() * side();
    if constexpr (Shape::kM != 0) {
      constexpr std::uint32_t kVectors = Shape::kM * Shape::kM / 8;  // per block
      for (std::uint32_t v = threadIdx.x; v < count * 2 * kVectors; v += Shape::kThreads) {
        const BlockPair pair = pairs[v / (2 * kVectors)];
        const std::uint32_t within = v % (2 * kVectors);
        const bool is_b = within >= kVectors;
        const std::uint16_t* block =
            is_b ? b_values_ + std::uint64_t{pair.b} * elements : a_values_ + std::uint64_t{pair.a} * elements;
        reinterpret_cast<uint4*>(stage_)[v] = __ldg(reinterpret_cast<const uint4*>(block) + within % kVectors);
      }
    } else {
      for (std::uint32_t e = threadIdx.x; e < count * 2 * elements; e += Shape::kThreads) {
        const BlockPair pair = pairs[e / (2 * elements)];
        const std::uint32_t within = e % (2 * elements);
        stage_[e] = within < elements ? a_values_[std::uint64_t{pair.a} * elements + within]
                                      : b_values_[std::uint64_t{pair.b} * elements + within - elements];
      }
    }
  }

  __device__ void multiply(const std::uint16_t* a, const std::uint16_t* b) {
    const std::uint32_t m = side();
#pragma unroll
    for (std::uint32_t x = 0; x < Shape::kPerThread; ++x) {
      if (!owns(x)) continue;
      const std::uint32_t r = element(x) / m;
      const std::uint32_t c = element(x) % m;
      if constexpr (Shape::kM == 4) {
        add_products(reinterpret_cast<const uint2*>(a)[r], reinterpret_cast<const uint2*>(b)[c], sums_[x]);
      } else if constexpr (Shape::kM != 0) {
        constexpr std::uint32_t kChunks = Shape::kM / 8;
#pragma unroll
        for (std::uint32_t q = 0; q < kChunks; ++q) {
          // Columns start at different chunks, so that eight columns read eight different groups of banks.
          const std::uint32_t chunk = (q + c * kChunks / 8) % kChunks;
          add_products(reinterpret_cast<const uint4*>(a)[r * kChunks + chunk],
                       reinterpret_cast<const uint4*>(b)[c * kChunks + chunk], sums_[x]);
        }
      } else {
        for (std::uint32_t t = 0; t < m; ++t) sums_[x] += multiply_exact(a[r * m + t], b[c * m + t]);
      }
    }
  }

  /// Adds the sums of all groups into group 0, through the stage.
  __device__ void merge_groups() {
    auto* group_sums = reinterpret_cast<std::uint64_t*>(stage_);
    static_assert(Shape::kGroups == 1 || Shape::kThreads * sizeof(std::uint64_t) <= Shape::kStageBytes);
    group_sums[threadIdx.x] = sums_[0];
    __syncthreads();  // the sums of all groups are in the stage
    if (group() != 0) return;
    for (std::uint32_t g = 1; g < Shape::kGroups; ++g) sums_[0] += group_sums[g * Shape::kM * Shape::kM + threadIdx.x];
  }

  const std::uint16_t* a_values_;
  const std::uint16_t* b_values_;
  std::uint32_t m_;
  std::uint16_t* stage_;
  std::uint64_t sums_[Shape::kPerThread] = {};
};

/// Calls body(CtaShape()) for a block side: two warps for small blocks, one thread per element for larger ones. 64 runs
/// with m at run time: 4,096 elements are more than a CTA has threads.
template <class Body>
void for_cta_shape(std::uint32_t m, Body body) {
  for_block_side<4, 8, 16, 32>(m, [&](auto side) {
    constexpr std::uint32_t kM = decltype(side)::value;
    if constexpr (kM != 0) {
      body(CtaShape<kM, (kM <= 8 ? 64 : kM * kM), 1>{});
    } else if (m <= 8) {
      body(CtaShape<0, 64, 1>{});
    } else {
      body(CtaShape<0, 256, kMaxBlockDim * kMaxBlockDim / 256>{});
    }
  });
}

}  // namespace spmm::kernels
