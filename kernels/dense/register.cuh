// The dense product with register tiles: one CTA computes 128 x 128 elements of C, a thread 8 x 8 of them.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/dense/arith.cuh"

namespace spmm::kernels::register_tile {

constexpr unsigned kRows = 128;     // of C per CTA
constexpr unsigned kColumns = 128;  // of C per CTA
constexpr unsigned kDepth = 16;     // of K per stage
constexpr unsigned kStages = 3;
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

template <class Arith>
constexpr std::size_t kSharedBytes = kStages * sizeof(Stage<typename Arith::Staged>);

/// Copies Bytes (4 or 16) to shared memory without registers, zeros if `valid` is false.
template <unsigned Bytes>
__device__ inline void copy_async(void* to, const void* from, bool valid) {
#if __CUDA_ARCH__ >= 800
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  const unsigned taken = valid ? Bytes : 0;
  if constexpr (Bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(taken) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from), "r"(taken) : "memory");
  }
#else  // no asynchronous copies
  using Word = std::conditional_t<Bytes == 16, uint4, std::uint32_t>;
  *static_cast<Word*>(to) = valid ? *static_cast<const Word*>(from) : Word{};
#endif
}

/// Ends a group of copies of this thread.
__device__ inline void commit_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits until all but the newest `Left` groups of this thread have landed.
template <unsigned Left>
__device__ inline void wait_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
#endif
}

/// Four neighbouring elements of a row on their way to shared memory. Whole: either all four exist or none.
template <class Arith, bool Whole>
struct Chunk {
  using In = typename Arith::In;
  using Staged = typename Arith::Staged;
  static constexpr bool kWidens = sizeof(In) != sizeof(Staged);

  Four<In> held;  // only if elements are widened on the way

  /// Starts to load the first `count` of the four, zeros behind them; nothing else is read.
  /// Shapes: to 16-byte aligned.
  __device__ void start(Staged* to, const In* from, unsigned count) {
    if constexpr (kWidens && Whole) {
      held = count != 0 ? *reinterpret_cast<const Four<In>*>(from) : Four<In>{};
    } else if constexpr (kWidens) {
#pragma unroll
      for (unsigned e = 0; e < 4; ++e) held.x[e] = e < count ? from[e] : In{0};
    } else if constexpr (Whole) {
      copy_async<16>(to, from, count != 0);
    } else {
#pragma unroll
      for (unsigned e = 0; e < 4; ++e) copy_async<4>(to + e, from + e, e < count);
    }
  }

  /// Brings what start() left in registers to shared memory.
  __device__ void finish(Staged* to) const {
    if constexpr (kWidens) {
      Four<Staged> wide;
#pragma unroll
      for (unsigned e = 0; e < 4; ++e) wide.x[e] = held.x[e];
      *reinterpret_cast<Four<Staged>*>(to) = wide;
    }
  }
};

/// Brings stages of both operands to shared memory: four chunks per thread, neighbours by neighbouring threads.
template <class Arith, bool Whole>
class StageLoader {
 public:
  using In = typename Arith::In;
  using StageOf = Stage<typename Arith::Staged>;

  __device__ StageLoader(DenseShape shape, const In* a, const In* b, CtaCorner corner)
      : left_(shape.inner), inner_(shape.inner), cols_(shape.cols) {
    const std::uint64_t row = corner.row + a_row();
    const std::uint64_t column = corner.column + b_column();
    a_ = a + row * shape.inner + a_inner();
    b_ = b + std::uint64_t{b_inner()} * shape.cols + column;
    num_rows_ = (row < shape.rows ? 1 : 0) + (row + 64 < shape.rows ? 1 : 0);
    columns_ = column < shape.cols ? clamp_to_four(shape.cols - column) : 0;
  }

  /// Starts to load the next stage.
  __device__ void start(StageOf& stage) {
    const unsigned inner = left_ > a_inner() ? clamp_to_four(left_ - a_inner()) : 0;
#pragma unroll
    for (unsigned x = 0; x < 2; ++x) {
      chunks_[x].start(a_position(stage, x), a_ + std::uint64_t{x * 64} * inner_, x < num_rows_ ? inner : 0);
      chunks_[2 + x].start(b_position(stage, x), b_ + std::uint64_t{x * 8} * cols_,
                           left_ > b_inner() + x * 8 ? columns_ : 0);
    }
    a_ += kDepth;
    b_ += std::uint64_t{kDepth} * cols_;
    left_ = left_ > kDepth ? left_ - kDepth : 0;
  }

  /// Completes what start() began for this stage.
  __device__ void finish(StageOf& stage) const {
#pragma unroll
    for (unsigned x = 0; x < 2; ++x) {
      chunks_[x].finish(a_position(stage, x));
      chunks_[2 + x].finish(b_position(stage, x));
    }
  }

 private:
  using Staged = typename Arith::Staged;

  // Chunks of A: 4 along K, 64 rows, twice; of B: 32 along the columns, 8 rows of K, twice.
  __device__ static unsigned a_inner() {
    return threadIdx.x % 4 * 4;
  }
  __device__ static unsigned a_row() {
    return threadIdx.x / 4;
  }
  __device__ static unsigned b_column() {
    return threadIdx.x % 32 * 4;
  }
  __device__ static unsigned b_inner() {
    return threadIdx.x / 32;
  }
  __device__ static Staged* a_position(StageOf& stage, unsigned x) {
    return stage.a + (a_row() + x * 64) * kPitchA + a_inner();
  }
  __device__ static Staged* b_position(StageOf& stage, unsigned x) {
    return stage.b + (b_inner() + x * 8) * kColumns + b_column();
  }
  __device__ static unsigned clamp_to_four(std::uint64_t count) {
    return count < 4 ? static_cast<unsigned>(count) : 4;
  }

  const In* a_;
  const In* b_;
  std::uint32_t left_;  // of K
  std::uint32_t inner_;
  std::uint32_t cols_;
  unsigned num_rows_;  // of this thread's two rows of A
  unsigned columns_;   // of this thread's chunks of B, 0 to 4
  Chunk<Arith, Whole> chunks_[4];
};

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

/// Computes the CTA's tile; put(row, column, four) takes four neighbouring elements of C, some of them outside of it.
/// Shapes: shared [kSharedBytes], 16-byte aligned.
/// Threads: all of the CTA.
template <class Arith, bool Whole, class Put>
__device__ void multiply_tile(DenseShape shape, const typename Arith::In* a, const typename Arith::In* b, void* shared,
                              const Put& put) {
  auto* const stages = static_cast<Stage<typename Arith::Staged>*>(shared);
  const CtaCorner corner = cta_corner(shape, kRows, kColumns);
  const std::uint32_t num_steps = shape.inner / kDepth + (shape.inner % kDepth != 0 ? 1 : 0);
  StageLoader<Arith, Whole> loader(shape, a, b, corner);
  typename Arith::Sum sums[8][8] = {};
#pragma unroll
  for (unsigned s = 0; s < kStages - 1; ++s) {
    if (s < num_steps) {
      loader.start(stages[s]);
      loader.finish(stages[s]);
    }
    commit_copies();
  }
  unsigned slot = 0;
  for (std::uint32_t step = 0; step < num_steps; ++step) {
    const unsigned refilled = slot == 0 ? kStages - 1 : slot - 1;
    const bool more = num_steps - step > kStages - 1;
    wait_copies<kStages - 2>();
    __syncthreads();  // this stage is complete; the one before it has been read and is refilled now
    if (more) loader.start(stages[refilled]);
    commit_copies();
    multiply_stage<Arith>(stages[slot], sums);
    if (more) loader.finish(stages[refilled]);
    slot = slot == kStages - 1 ? 0 : slot + 1;
  }
#pragma unroll
  for (unsigned i = 0; i < 8; ++i) {
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      Four<typename Arith::Out> four;
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) four.x[j] = Arith::finish(sums[i][half * 4 + j]);
      put(corner.row + own_row() + i * 4, corner.column + own_column() + half * 32, four);
    }
  }
}

}  // namespace spmm::kernels::register_tile
