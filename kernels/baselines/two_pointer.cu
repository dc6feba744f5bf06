// Inner-product merge, the baseline: one CTA per C block merges the block row of A and the block column of B.
#include "kernels/baselines/block_product.cuh"
#include "kernels/baselines/launch.hpp"
#include "kernels/check.hpp"
#include "kernels/grid.cuh"

namespace spmm::kernels {
namespace {

/// Entries of each list held in shared memory at a time: at least four per thread if a CTA has two warps.
constexpr std::uint32_t kChunk = 256;

/// Where every C block of a panel is visited, CTAs walk down this many block rows before they move to the next column,
/// so that a block column of B is fetched once for all of them.
constexpr std::uint64_t kRowsPerStrip = 16;

/// Tile of a CTA: strips of kRowsPerStrip block rows, column by column.
__device__ std::uint64_t c_block_number(const CBlocksView& c_blocks, std::uint64_t cta) {
  if (c_blocks.keys != nullptr) return cta;
  const std::uint64_t columns = c_blocks.num_columns;
  const std::uint64_t strip = cta / (kRowsPerStrip * columns);
  const std::uint64_t left = c_blocks.num_rows - strip * kRowsPerStrip;
  const std::uint64_t height = left < kRowsPerStrip ? left : kRowsPerStrip;
  const std::uint64_t within = cta - strip * kRowsPerStrip * columns;
  return (strip * kRowsPerStrip + within % height) * columns + within / height;
}

/// Two lists in shared memory and the matches found in them.
struct Lists {
  std::uint32_t a[kChunk];
  std::uint32_t b[kChunk];
  BlockPair matches[kChunk];
  std::uint32_t num_matches;
};

/// Merges a[0, num_a) and b[0, num_b): each thread walks its own range of A's entries with two pointers.
/// Shapes: first_a, first_b = positions of the chunks in the operands.
template <std::uint32_t Threads>
__device__ void merge_chunks(Lists& lists, std::uint32_t num_a, std::uint32_t num_b, std::uint32_t first_a,
                             std::uint32_t first_b) {
  const std::uint32_t per_thread = (num_a + Threads - 1) / Threads;
  std::uint32_t x = threadIdx.x * per_thread;
  const std::uint32_t end = min(x + per_thread, num_a);
  if (x >= end) return;
  auto y = static_cast<std::uint32_t>(lower_bound(lists.b, 0, num_b, lists.a[x]));
  while (x < end && y < num_b) {
    const std::uint32_t in_a = lists.a[x];
    const std::uint32_t in_b = lists.b[y];
    if (in_a == in_b) {
      const std::uint32_t x_match = atomicAdd(&lists.num_matches, 1u);  // in any order: sums are exact
      lists.matches[x_match] = {.a = first_a + x, .b = first_b + y};
    }
    x += in_a <= in_b;
    y += in_b <= in_a;
  }
}

// Grid: one CTA per C block.
// Work: both lists pass through shared memory in chunks; threads merge ranges of them, then all threads multiply the
//       matches, one thread per element (m = 4: four groups of threads share the matches).
// Memory: index chunks and operand blocks are read contiguously (16 bytes per thread), results written contiguously.
template <class Shape>
__global__ void __launch_bounds__(Shape::kThreads)
    mul_two_pointer(OperandView a, OperandView b, CBlocksView c_blocks, std::uint32_t m, CBlockResults results) {
  __shared__ Lists lists;
  __shared__ __align__(16) std::uint16_t stage[Shape::kStageBytes / 2];
  const std::uint64_t x = c_block_number(c_blocks, blockIdx.x);
  const CBlock c_block = c_block_at(c_blocks, x);
  std::uint32_t pa = a.index.offsets[c_block.row];
  std::uint32_t pb = b.index.offsets[c_block.column];
  const std::uint32_t end_a = a.index.offsets[c_block.row + 1];
  const std::uint32_t end_b = b.index.offsets[c_block.column + 1];
  BlockProduct<Shape> product(a.values, b.values, m, stage);
  while (pa < end_a && pb < end_b) {
    const std::uint32_t num_a = min(kChunk, end_a - pa);
    const std::uint32_t num_b = min(kChunk, end_b - pb);
    for (std::uint32_t e = threadIdx.x; e < num_a; e += Shape::kThreads) lists.a[e] = a.index.columns[pa + e];
    for (std::uint32_t e = threadIdx.x; e < num_b; e += Shape::kThreads) lists.b[e] = b.index.columns[pb + e];
    if (threadIdx.x == 0) lists.num_matches = 0;
    __syncthreads();  // chunks are complete, the counter is reset
    merge_chunks<Shape::kThreads>(lists, num_a, num_b, pa, pb);
    // The list whose chunk ends first moves on as a whole, the other up to the same column.
    const std::uint32_t last = min(lists.a[num_a - 1], lists.b[num_b - 1]);
    pa += static_cast<std::uint32_t>(upper_bound(lists.a, 0, num_a, last));
    pb += static_cast<std::uint32_t>(upper_bound(lists.b, 0, num_b, last));
    __syncthreads();  // all matches are listed
    const std::uint32_t num_matches = lists.num_matches;
    if (num_matches == 0) {
      __syncthreads();  // all threads have read the counter; it is reset next
      continue;
    }
    product.add(lists.matches, num_matches);  // ends with a barrier
    if (product.is_saturated()) break;
  }
  const std::uint32_t elements = m * m;
  product.store(results.values + x * elements, results.non_zero + x);
}

}  // namespace

void launch_mul_two_pointer(const OperandView& a, const OperandView& b, const CBlocksView& c_blocks, std::uint32_t m,
                            const CBlockResults& results, cudaStream_t stream) {
  if (c_blocks.num_c_blocks == 0) return;
  for_cta_shape(m, [&](auto shape) {
    using Shape = decltype(shape);
    mul_two_pointer<Shape>
        <<<static_cast<unsigned>(c_blocks.num_c_blocks), Shape::kThreads, 0, stream>>>(a, b, c_blocks, m, results);
  });
  check_launch("mul_two_pointer");
}

}  // namespace spmm::kernels
