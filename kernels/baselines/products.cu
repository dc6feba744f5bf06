// The baselines: a CTA for each C block, whose pairs its threads find by two pointers or by binary search, or the host
// has listed.
#include <algorithm>
#include <type_traits>

#include "kernels/baselines/launch.hpp"
#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/row_dot.cuh"
#include "spmm/types.hpp"

namespace spmm::kernels {
namespace {

constexpr std::uint32_t kMaxThreads = 256;

/// Threads of a CTA: one for each element of a C block, if these are not too many.
unsigned threads_for(std::uint32_t m) {
  return std::min(kMaxThreads, (m * m + 31) / 32 * 32);
}

/// Sums of one C block, spread over the threads of a CTA. PerThread: elements of a thread at most.
template <std::uint32_t PerThread>
struct BlockSums {
  std::uint32_t m;
  std::uint64_t sums[PerThread] = {};

  /// Calls body(x, element) for this thread's elements.
  template <class Body>
  __device__ void for_each_element(const Body& body) {
#pragma unroll
    for (std::uint32_t x = 0; x < PerThread; ++x) {
      const std::uint32_t element = threadIdx.x + x * blockDim.x;
      if (element < m * m) body(x, element);
    }
  }

  /// Adds the product of a pair; B is transposed within its block.
  __device__ void add(const OperandView& a, const OperandView& b, const BlockPair& pair) {
    const std::uint16_t* const left = a.values + std::uint64_t{pair.a} * m * m;
    const std::uint16_t* const right = b.values + std::uint64_t{pair.b} * m * m;
    for_each_element([&](std::uint32_t x, std::uint32_t element) {
      const std::uint16_t* const row = left + element / m * m;
      const std::uint16_t* const column = right + element % m * m;
      if (m % 4 != 0) {
        sums[x] += dot(row, column, m);
        return;
      }
      for (std::uint32_t t = 0; t < m; t += 4) {
        add_products(*reinterpret_cast<const uint2*>(row + t), *reinterpret_cast<const uint2*>(column + t), sums[x]);
      }
    });
  }

  /// Saturates, writes the C block and its flag. Threads: all of the CTA.
  __device__ void store(const CBlockResults& results, std::uint64_t c_block) {
    bool any = false;
    for_each_element([&](std::uint32_t x, std::uint32_t element) {
      const std::uint32_t value = saturate(sums[x]);
      results.values[c_block * m * m + element] = value;
      any |= value != 0;
    });
    const bool is_set = __syncthreads_or(any) != 0;  // one flag for all threads' elements
    if (threadIdx.x == 0) results.non_zero[c_block] = is_set ? 1 : 0;
  }
};

// Grid: one CTA per C block.
// Work: each thread takes Entries neighbouring blocks of A's row, searches B's column for the first of them and goes on
//       from there with two pointers (one entry: binary search alone); then all threads multiply the matches found, a
//       thread per element.
// Memory: A's indices are read contiguously, B's from cache; matches are listed in shared memory.
template <std::uint32_t PerThread, std::uint32_t Entries>
__global__ void __launch_bounds__(kMaxThreads)
    mul_inner(OperandView a, OperandView b, CBlocksView c_blocks, std::uint32_t m, CBlockResults results) {
  __shared__ BlockPair matches[kMaxThreads * Entries];
  __shared__ std::uint32_t num_matches;
  const CBlock c_block = c_block_at(c_blocks, blockIdx.x);
  const std::uint32_t begin_b = b.index.offsets[c_block.column];
  const std::uint32_t end_b = b.index.offsets[c_block.column + 1];
  const std::uint32_t end_a = a.index.offsets[c_block.row + 1];
  BlockSums<PerThread> product{.m = m};
  for (std::uint32_t first = a.index.offsets[c_block.row]; first < end_a; first += blockDim.x * Entries) {
    if (threadIdx.x == 0) num_matches = 0;
    __syncthreads();  // the counter is reset
    std::uint32_t p = first + threadIdx.x * Entries;
    const std::uint32_t end = min(p + Entries, end_a);
    if (p < end) {
      auto q = static_cast<std::uint32_t>(lower_bound(b.index.columns, begin_b, end_b, a.index.columns[p]));
      while (p < end && q < end_b) {
        const std::uint32_t in_a = a.index.columns[p];
        const std::uint32_t in_b = b.index.columns[q];
        if (in_a == in_b) matches[atomicAdd(&num_matches, 1u)] = {.a = p, .b = q};  // in any order: sums are exact
        p += in_a <= in_b ? 1 : 0;
        q += in_b <= in_a ? 1 : 0;
      }
    }
    __syncthreads();  // all matches are listed
    for (std::uint32_t x = 0; x < num_matches; ++x) product.add(a, b, matches[x]);
    __syncthreads();  // all threads have read the list; it is replaced next
  }
  product.store(results, blockIdx.x);
}

// Grid: one CTA.
// Work: a thread per element.
// Memory: the pair list is read from where the host left it.
template <std::uint32_t PerThread>
__global__ void __launch_bounds__(kMaxThreads)
    mul_listed(OperandView a, OperandView b, HostPairs list, std::uint32_t m, CBlockResults results) {
  BlockSums<PerThread> product{.m = m};
  for (std::uint32_t x = 0; x < list.num_pairs; ++x) product.add(a, b, list.pairs[x]);
  product.store(results, list.c_block);
}

/// Calls body(constant) with the elements of a thread at most.
template <class Body>
void for_elements_per_thread(std::uint32_t m, const Body& body) {
  if (m * m <= kMaxThreads) {
    body(std::integral_constant<std::uint32_t, 1>());
  } else {
    body(std::integral_constant<std::uint32_t, kMaxBlockDim * kMaxBlockDim / kMaxThreads>());
  }
}

template <std::uint32_t Entries>
void launch_inner(const OperandView& a, const OperandView& b, const CBlocksView& c_blocks, std::uint32_t m,
                  const CBlockResults& results, cudaStream_t stream) {
  if (c_blocks.num_c_blocks == 0) return;
  for_elements_per_thread(m, [&](auto elements) {
    mul_inner<decltype(elements)::value, Entries>
        <<<static_cast<unsigned>(c_blocks.num_c_blocks), threads_for(m), 0, stream>>>(a, b, c_blocks, m, results);
  });
  check_launch("mul_inner");
}

}  // namespace

void launch_mul_two_pointer(const OperandView& a, const OperandView& b, const CBlocksView& c_blocks, std::uint32_t m,
                            const CBlockResults& results, cudaStream_t stream) {
  launch_inner<4>(a, b, c_blocks, m, results, stream);
}

void launch_mul_binary_search(const OperandView& a, const OperandView& b, const CBlocksView& c_blocks, std::uint32_t m,
                              const CBlockResults& results, cudaStream_t stream) {
  launch_inner<1>(a, b, c_blocks, m, results, stream);
}

void launch_mul_host_pairs(const OperandView& a, const OperandView& b, const HostPairs& list, std::uint32_t m,
                           const CBlockResults& results, cudaStream_t stream) {
  for_elements_per_thread(m, [&](auto elements) {
    mul_listed<decltype(elements)::value><<<1, threads_for(m), 0, stream>>>(a, b, list, m, results);
  });
  check_launch("mul_listed");
}

}  // namespace spmm::kernels
