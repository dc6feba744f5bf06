// Dense product with register tiles: a CTA computes 128 x 128 elements of C, a thread 8 x 8 of them. Row-major it is
// the kernel `register` of spmm-dense; from dense u16 copies to C blocks it is dense-tiled.
#include "kernels/check.hpp"
#include "kernels/dense/arith.cuh"

namespace spmm::kernels {
namespace {

constexpr unsigned kRows = 128;     // of C per CTA
constexpr unsigned kColumns = 128;  // of C per CTA
constexpr unsigned kDepth = 16;     // of K per stage
constexpr unsigned kThreads = 256;
constexpr unsigned kPitchA = kDepth + 4;  // rows of A four chunks of 16 bytes and a gap of one apart

template <class T>
struct alignas(4 * sizeof(T)) Four {
  T x[4];
};

/// Layout: A as rows of K, B as rows of columns.
template <class Staged>
struct alignas(16) Stage {
  Staged a[kRows * kPitchA];
  Staged b[kDepth * kColumns];
};

/// The elements from `at` on of a row of `size`, zeros behind it. Whole: `size` and `at` are multiples of four.
template <bool Whole, class In>
__device__ Four<In> load_four(const In* row, std::uint64_t size, std::uint64_t at) {
  Four<In> four{};
  if constexpr (Whole) {
    if (at < size) four = *reinterpret_cast<const Four<In>*>(row + at);
  } else {
#pragma unroll
    for (unsigned e = 0; e < 4; ++e) {
      if (at + e < size) four.x[e] = row[at + e];
    }
  }
  return four;
}

/// This thread's four elements, as words of shared memory.
template <class Staged, class In>
__device__ void store_four(Staged* to, const Four<In>& four) {
  Four<Staged> staged;
#pragma unroll
  for (unsigned e = 0; e < 4; ++e) staged.x[e] = static_cast<Staged>(four.x[e]);
  *reinterpret_cast<Four<Staged>*>(to) = staged;
}

/// This thread's elements of C: 8 rows 4 apart, two runs of 4 columns 32 apart. A warp has 4 x 8 threads on 32 x 64
/// elements:
///
///                         columns 0-3 and 32-35   4-7 and 36-39   ...   28-31 and 60-63
///   rows 0, 4, ..., 28    lane 0                  lane 2                lane 14
///   rows 1, 5, ..., 29    lane 1                  lane 3                lane 15
///   rows 2, 6, ..., 30    lane 16                 lane 18               lane 30
///   rows 3, 7, ..., 31    lane 17                 lane 19               lane 31
///
/// Neighbouring lanes share their columns and lanes two apart their rows: half a warp reads 16 bytes per lane in one
/// pass instead of two.
__device__ inline unsigned own_row() {
  return threadIdx.x / 64 * 32 + threadIdx.x % 32 / 16 * 2 + threadIdx.x % 2;
}
__device__ inline unsigned own_column() {
  return threadIdx.x / 32 % 2 * 64 + threadIdx.x / 2 % 8 * 4;
}

/// Adds the products of one stage.
template <class Arith>
__device__ void multiply_stage(const Stage<typename Arith::Staged>& stage, typename Arith::Sum (&sums)[8][8]) {
  using Staged = typename Arith::Staged;
  const Staged* const a = stage.a + own_row() * kPitchA;
  const Staged* const b = stage.b + own_column();
#pragma unroll
  for (unsigned first = 0; first < kDepth; first += 4) {
    Four<Staged> left[8];
#pragma unroll
    for (unsigned i = 0; i < 8; ++i) left[i] = *reinterpret_cast<const Four<Staged>*>(a + i * 4 * kPitchA + first);
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) {
#pragma unroll
      for (unsigned half = 0; half < 2; ++half) {
        const auto right = *reinterpret_cast<const Four<Staged>*>(b + (first + k) * kColumns + half * 32);
#pragma unroll
        for (unsigned i = 0; i < 8; ++i) {
#pragma unroll
          for (unsigned j = 0; j < 4; ++j) {
            sums[i][half * 4 + j] = Arith::add(sums[i][half * 4 + j], left[i].x[k], right.x[j]);
          }
        }
      }
    }
  }
}

/// C as a row-major matrix.
template <class Out, bool Whole>
struct RowMajor {
  Out* c;
  __device__ void put(DenseShape shape, std::uint64_t row, std::uint64_t column, const Four<Out>& four) const {
    if (row >= shape.rows || column >= shape.cols) return;
    Out* const to = c + row * shape.cols + column;
    if constexpr (Whole) {
      *reinterpret_cast<Four<Out>*>(to) = four;
    } else {
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) {
        if (column + j < shape.cols) to[j] = four.x[j];
      }
    }
  }
};

/// C blocks, and flags of those that are not zero.
struct ToBlocks {
  DenseTarget target;
  __device__ void put(DenseShape, std::uint64_t row, std::uint64_t column, const Four<std::uint32_t>& four) const {
    if (row >= target.num_rows) return;
    const std::uint32_t m = target.m;
    const auto r = static_cast<std::uint32_t>(row);
    const std::uint64_t first_c_block = std::uint64_t{r / m} * target.num_block_columns + target.first_block_column;
#pragma unroll
    for (unsigned j = 0; j < 4; ++j) {
      if (column + j >= target.num_columns) return;
      const auto c = static_cast<std::uint32_t>(column) + j;
      const std::uint64_t c_block = first_c_block + c / m;
      target.results.values[(c_block * m + r % m) * m + c % m] = four.x[j];
      // All threads that write store 1: no atomic is needed.
      if (four.x[j] != 0) target.results.non_zero[c_block] = 1;
    }
  }
};

/// CTAs per multiprocessor that registers are shared among: 64-bit sums take all of them.
template <class Arith>
constexpr unsigned kMinCtas = sizeof(typename Arith::Sum) == 8 ? 1 : 2;

// Grid: one CTA of 256 threads per 128 x 128 elements of C.
// Work: 8 x 8 elements per thread; chunks of 4 elements are loaded by neighbouring threads from neighbouring addresses,
//       and held in registers while the stage before is multiplied.
//       Whole: K and L are multiples of 4, so that chunks are aligned and never cut; else element by element.
// Memory: 2 stages of 18 KB.
template <class Arith, bool Whole, class Target>
__global__ void __launch_bounds__(kThreads, kMinCtas<Arith>)
    register_product(DenseShape shape, const typename Arith::In* __restrict__ a,
                     const typename Arith::In* __restrict__ b, Target target) {
  using In = typename Arith::In;
  __shared__ Stage<typename Arith::Staged> stages[2];
  const CtaCorner corner = cta_corner(shape, kRows, kColumns);
  const unsigned row = threadIdx.x / 4;  // of A, and 64 below; of B's K, and 8 below
  const unsigned k_row = threadIdx.x / 32;
  const unsigned k = threadIdx.x % 4 * 4;
  const unsigned column = threadIdx.x % 32 * 4;
  Four<In> held[4];
  const auto load = [&](std::uint64_t first) {
#pragma unroll
    for (unsigned x = 0; x < 2; ++x) {
      const std::uint64_t in_a = corner.row + row + x * 64;
      const std::uint64_t in_b = first + k_row + x * 8;
      held[x] = load_four<Whole>(a + in_a * shape.inner, in_a < shape.rows ? shape.inner : 0, first + k);
      held[2 + x] =
          load_four<Whole>(b + in_b * shape.cols, in_b < shape.inner ? shape.cols : 0, corner.column + column);
    }
  };
  const auto store = [&](Stage<typename Arith::Staged>& stage) {
#pragma unroll
    for (unsigned x = 0; x < 2; ++x) {
      store_four(stage.a + (row + x * 64) * kPitchA + k, held[x]);
      store_four(stage.b + (k_row + x * 8) * kColumns + column, held[2 + x]);
    }
  };
  typename Arith::Sum sums[8][8] = {};
  load(0);
  store(stages[0]);
  __syncthreads();  // the first stage is complete
  unsigned slot = 0;
  for (std::uint64_t first = 0; first < shape.inner; first += kDepth, slot = 1 - slot) {
    const bool more = first + kDepth < shape.inner;
    if (more) load(first + kDepth);
    multiply_stage<Arith>(stages[slot], sums);
    if (more) store(stages[1 - slot]);
    __syncthreads();  // the next stage is complete, this one has been read
  }
#pragma unroll
  for (unsigned i = 0; i < 8; ++i) {
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      Four<typename Arith::Out> four;
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) four.x[j] = Arith::finish(sums[i][half * 4 + j]);
      target.put(shape, corner.row + own_row() + i * 4, corner.column + own_column() + half * 32, four);
    }
  }
}

}  // namespace

DenseLaunch dense_register(DenseType type, DenseShape shape) {
  return for_dense_type(type, [&]<class Arith>(Arith) {
    using Out = typename Arith::Out;
    const void* const whole = reinterpret_cast<const void*>(&register_product<Arith, true, RowMajor<Out, true>>);
    const void* const cut = reinterpret_cast<const void*>(&register_product<Arith, false, RowMajor<Out, false>>);
    return DenseLaunch{.function = shape.inner % 4 == 0 && shape.cols % 4 == 0 ? whole : cut,
                       .num_ctas = num_dense_ctas(shape, kRows, kColumns),
                       .threads_x = kThreads,
                       .threads_y = 1};
  });
}

void launch_mul_dense_tiled(const DenseView& a, const DenseView& b, const DenseTarget& target, cudaStream_t stream) {
  const DenseShape shape{.rows = target.num_rows, .inner = a.stride, .cols = b.stride};
  const unsigned num_ctas = num_dense_ctas(shape, kRows, kColumns);
  if (num_ctas == 0) return;
  register_product<SaturatingU16, true><<<num_ctas, kThreads, 0, stream>>>(shape, a.data, b.data, ToBlocks{target});
  check_launch("register_product");
}

}  // namespace spmm::kernels
