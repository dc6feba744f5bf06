// The chains. A stream is a run of C blocks, and so a part of the list; whoever walks it writes a C block where its
// pairs end; one of a given pattern may have none. Nothing is added up outside of registers: no split-K, no atomics,
// any length of a chain.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/chains/grid.cuh"
#include "kernels/chains/launch.hpp"
#include "spmm/chain.hpp"

namespace spmm::kernels {

/// Chains as they are shared out.
struct StreamsView {
  ChainsView chains;
  std::uint32_t length = 1;    // C blocks of a stream
  std::uint32_t count = 0;     // streams
  std::uint32_t row_ctas = 1;  // CTAs that an average row of C fills

  [[nodiscard]] __device__ std::uint32_t begin(std::uint32_t stream) const {
    return min(chains.num_c_blocks, min(stream, count) * length);
  }
  [[nodiscard]] __device__ std::uint32_t end(std::uint32_t stream) const {
    return min(chains.num_c_blocks, begin(stream) + length);
  }
};

/// The C blocks of a stream, written one after the other. Plain ones have pairs, the first of which is marked, and
/// their elements are the chains. Others may have none, and elements are alpha * chain + beta * c. S2 on an H200 by the
/// code of others: f32 4.33 ms instead of 4.11, f64 6.81 instead of 6.22.
/// Values: kLooksAhead = the end of the next block is known when one ends, for small blocks.
template <bool kIsPlain, bool kLooksAhead>
class StreamBlocks {
 public:
  __device__ StreamBlocks(const StreamsView& streams, std::uint32_t stream)
      : first(streams.begin(stream)), c_links_(streams.chains.c_links), c_last_(streams.chains.num_c_blocks) {
    c_end_ = streams.end(stream);
    begin = c_links_[first];
    end = c_links_[c_end_];
    if constexpr (!kIsPlain) {
      block_ = first;
      block_end_ = c_links_[min(first + 1, c_last_)];
      if (kLooksAhead) next_end_ = c_links_[min(first + 2, c_last_)];
    }
  }

  /// Calls write() for blocks whose pairs lie before p. Values: link = pair p.
  template <class Write>
  __device__ void write_before(std::uint32_t p, const Link& link, const Write& write) {
    if constexpr (kIsPlain) {
      if ((link.a & kFirstOfBlock) == 0) return;
      if (has_any_) write();
      has_any_ = true;
    } else {
      while (block_end_ <= p) {
        ++block_;
        if constexpr (kLooksAhead) {
          block_end_ = next_end_;
          next_end_ = c_links_[min(block_ + 2, c_last_)];
        }
        write();
        if constexpr (!kLooksAhead) block_end_ = c_links_[min(block_ + 1, c_last_)];
      }
    }
  }

  /// Calls write() for all others.
  template <class Write>
  __device__ void write_rest(const Write& write) {
    if constexpr (kIsPlain) {
      if (has_any_) write();
    } else {
      while (block_ < c_end_) {
        ++block_;
        write();
      }
    }
  }

  /// Whether there is a block behind that which is written. Not of plain ones.
  [[nodiscard]] __device__ bool has_next() const { return block_ < c_end_; }

  std::uint32_t first;  // C block
  std::uint32_t begin;  // pairs
  std::uint32_t end;

 private:
  const std::uint32_t* c_links_;
  std::uint32_t c_last_;
  std::uint32_t c_end_;
  std::uint32_t block_;  // the first that is not written
  std::uint32_t block_end_;
  std::uint32_t next_end_;
  bool has_any_ = false;  // plain: a block has begun
};

/// CTAs of equal place in their rows run one after the other: they meet the same rows of B.
/// S1 f64 on an H200: 0.83 ms instead of 0.88.
__device__ inline std::uint32_t cta_number(std::uint32_t row_ctas) {
  const std::uint32_t rows = gridDim.x / row_ctas;
  if (blockIdx.x >= rows * row_ctas) return blockIdx.x;
  return blockIdx.x % rows * row_ctas + blockIdx.x / rows;
}

/// N neighbouring elements that are loaded or stored at once, 16 bytes at a time.
template <class T, std::uint32_t N>
struct alignas(sizeof(T) * N % 16 == 0  ? 16
               : sizeof(T) * N % 8 == 0 ? 8
               : sizeof(T) * N % 4 == 0 ? 4
                                        : sizeof(T)) Elements {
  T at[N];
};

template <bool kAligned, std::uint32_t N, class T>
__device__ inline void load(const T* from, T (&to)[N]) {
  if constexpr (kAligned) {
    *reinterpret_cast<Elements<T, N>*>(to) = *reinterpret_cast<const Elements<T, N>*>(from);
  } else {
#pragma unroll
    for (std::uint32_t x = 0; x < N; ++x) to[x] = from[x];
  }
}

// Grid: P / R * (P / C) lanes per stream and tile of P x P elements.
// Work: a lane has the sums of R x C elements in registers. Values: kExact = the side is P, or whole tiles.
// Memory: lanes of a stream read whole rows of both blocks; L1 serves those that read the same.
template <class T, std::uint32_t P, std::uint32_t R, std::uint32_t C, bool kExact, bool kIsPlain>
__global__ void __launch_bounds__(kItemThreads)
    multiply_by_fma(StreamsView streams, const T* a, const T* b, typename Chain<T>::Sum* c,
                    Scaling<typename Chain<T>::Sum> scaling) {
  using Wide = typename Chain<T>::Wide;
  using Part = typename Chain<T>::Part;
  using Sum = typename Chain<T>::Sum;
  constexpr bool kIsSplit = Chain<T>::kIsSplit;
  constexpr bool kIsOneTile = kExact && P <= 16;
  constexpr std::uint32_t kLaneRows = P / R;
  constexpr std::uint32_t kLanes = kLaneRows * (P / C);
  constexpr std::uint32_t kGroups = 32 / kLanes;                             // of a warp
  constexpr std::uint32_t kInner = P < 8 ? P : 8 * sizeof(T) <= 32 ? 8 : 4;  // inner elements that are loaded at once
  constexpr bool kIsAligned = kExact && P % 2 == 0;
  constexpr bool kIsWhole = kExact && C * sizeof(Sum) % 16 == 0;  // C elements are read or written at once
  constexpr bool kIsSmall = P < 8;
  static_assert(kLanes <= 32 && P % kInner == 0);
  const std::uint32_t lane = threadIdx.x % 32;
  if (lane >= kGroups * kLanes) return;
  const std::uint32_t m = kIsOneTile ? P : streams.chains.m;
  const std::uint32_t tiles = kIsOneTile ? 1 : (m + P - 1) / P;  // along a side
  const std::uint32_t warp = cta_number(streams.row_ctas) * kItemWarps + threadIdx.x / 32;
  const std::uint32_t group = warp * kGroups + lane / kLanes;
  const std::uint32_t stream = tiles == 1 ? group : group / (tiles * tiles);
  if (stream >= streams.count) return;
  const std::uint32_t tile = tiles == 1 ? 0 : group % (tiles * tiles);
  const std::uint32_t row0 = tile / tiles * P + lane % kLanes % kLaneRows;  // rows row0, row0 + kLaneRows, ..
  const std::uint32_t column0 = tile % tiles * P + lane % kLanes / kLaneRows * C;
  StreamBlocks<kIsPlain, kIsSmall> blocks(streams, stream);
  Part parts[R][C] = {};
  Sum sums[kIsSplit ? R : 1][C] = {};  // of the pairs before
  const auto take = [&](std::uint32_t r, std::uint32_t x) -> Sum {
    const Part part = parts[r][x];
    parts[r][x] = 0;
    if constexpr (kIsSplit) {
      const Sum sum = sums[r][x];
      sums[r][x] = 0;
      return sum;
    } else {
      return stored(part);
    }
  };
  Sum* to = c + std::uint64_t{blocks.first} * m * m + row0 * m + column0;
  const auto read_old = [&](std::uint32_t r, Sum(&old)[C]) {
    if (kIsPlain || scaling.beta == 0) return;
    const Sum* const from = scaling.c + (to - c) + r * kLaneRows * m;
    if constexpr (kIsWhole) {
      load<true>(from, old);
    } else {
#pragma unroll
      for (std::uint32_t x = 0; x < C; ++x) {
        if (kExact || (row0 + r * kLaneRows < m && column0 + x < m)) old[x] = from[x];
      }
    }
  };
  const auto write_block = [&] {
#pragma unroll
    for (std::uint32_t r = 0; r < R; ++r) {
      alignas(16) Sum old[C] = {};  // of c
      read_old(r, old);
      const auto element = [&](std::uint32_t x) {
        const Sum sum = take(r, x);
        return kIsPlain ? sum : scaling.element(sum, old[x]);
      };
      if constexpr (kIsWhole) {
        Elements<Sum, C> out;
#pragma unroll
        for (std::uint32_t x = 0; x < C; ++x) out.at[x] = element(x);
        *reinterpret_cast<Elements<Sum, C>*>(to + r * kLaneRows * m) = out;
      } else {
#pragma unroll
        for (std::uint32_t x = 0; x < C; ++x) {
          const Sum sum = element(x);
          if (kExact || (row0 + r * kLaneRows < m && column0 + x < m)) to[r * kLaneRows * m + x] = sum;
        }
      }
    }
    to += m * m;
  };
  const std::uint32_t end = blocks.end;
  Link next = streams.chains.links[blocks.begin];
  for (std::uint32_t p = blocks.begin; p < end; ++p) {
    const Link link = next;
    if (p + 1 < end) next = streams.chains.links[p + 1];
    blocks.write_before(p, link, write_block);
    const T* const from_a = a + std::uint64_t{link.a & ~kFirstOfBlock} * m * m;
    const T* const from_b = b + std::uint64_t{link.b} * m * m;
#pragma unroll(P <= 16 ? P / kInner : 1)
    for (std::uint32_t k0 = 0; k0 < (kIsOneTile ? P : m); k0 += kInner) {
      alignas(16) T left[R][kInner];
      alignas(16) T right[kInner][C];
      if constexpr (kExact) {
#pragma unroll
        for (std::uint32_t r = 0; r < R; ++r) load<kIsAligned>(from_a + (row0 + r * kLaneRows) * m + k0, left[r]);
#pragma unroll
        for (std::uint32_t k = 0; k < kInner; ++k) load<kIsAligned>(from_b + (k0 + k) * m + column0, right[k]);
      } else {
#pragma unroll
        for (std::uint32_t k = 0; k < kInner; ++k) {
#pragma unroll
          for (std::uint32_t r = 0; r < R; ++r) {
            left[r][k] = T{};
            if (k0 + k < m && row0 + r * kLaneRows < m) left[r][k] = from_a[(row0 + r * kLaneRows) * m + k0 + k];
          }
#pragma unroll
          for (std::uint32_t x = 0; x < C; ++x) {
            right[k][x] = T{};
            if (k0 + k < m && column0 + x < m) right[k][x] = from_b[(k0 + k) * m + column0 + x];
          }
        }
      }
#pragma unroll
      for (std::uint32_t k = 0; k < kInner; ++k) {
        if (!kExact && k0 + k >= m) break;
#pragma unroll
        for (std::uint32_t r = 0; r < R; ++r) {
          const Wide of_a = widen(left[r][k]);
#pragma unroll
          for (std::uint32_t x = 0; x < C; ++x) parts[r][x] = multiply_add(of_a, widen(right[k][x]), parts[r][x]);
        }
      }
    }
    if constexpr (kIsSplit) {
#pragma unroll
      for (std::uint32_t r = 0; r < R; ++r) {
#pragma unroll
        for (std::uint32_t x = 0; x < C; ++x) {
          add_part(sums[r][x], parts[r][x]);
          parts[r][x] = 0;
        }
      }
    }
  }
  blocks.write_rest(write_block);
}

/// Work of a kernel. Values: groups = streams that a warp walks at a time.
struct StreamShape {
  std::uint32_t tiles = 1;  // of a C block
  std::uint32_t groups = 1;
  std::uint32_t most_blocks = 1;  // of a stream
};

/// Launches kernel(streams, a, b, c, scaling), the one for plain C blocks or the one for all.
template <class T, class Kernel>
void launch_streams(Kernel plain, Kernel scaled, const ChainsView& chains, const StreamShape& shape,
                    const ChainValues& values, cudaStream_t stream, const char* what) {
  const std::uint64_t length = std::uint64_t{chains.num_c_blocks} * shape.tiles / (chains.num_warps * shape.groups);
  StreamsView streams{.chains = chains};
  streams.length = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(length, 1, shape.most_blocks));
  streams.count = (chains.num_c_blocks - 1) / streams.length + 1;
  const std::uint64_t num_ctas = (std::uint64_t{streams.count} * shape.tiles - 1) / (shape.groups * kItemWarps) + 1;
  if (chains.m >= 8) {  // of smaller ones S2 takes longer
    streams.row_ctas = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, num_ctas / chains.num_rows));
  }
  using Sum = typename Chain<T>::Sum;
  const Scaling<Sum> scaling = scaling_of<Sum>(values.alpha, values.beta, values.old);
  launch_ctas(!chains.is_given && scaling.is_plain() ? plain : scaled, num_ctas, 0, stream, what, streams,
              static_cast<const T*>(values.a), static_cast<const T*>(values.b), static_cast<Sum*>(values.c), scaling);
}

template <class T, std::uint32_t P, std::uint32_t R, std::uint32_t C, bool kExact>
void launch_fma(const ChainsView& chains, const ChainValues& values, cudaStream_t stream) {
  const std::uint32_t tiles = (chains.m + P - 1) / P;
  const StreamShape shape{.tiles = tiles * tiles, .groups = 32 / (P / R * (P / C)), .most_blocks = P <= 2 ? 1u : 8u};
  launch_streams<T>(multiply_by_fma<T, P, R, C, kExact, true>, multiply_by_fma<T, P, R, C, kExact, false>, chains,
                    shape, values, stream, "multiply_by_fma");
}

/// C = A * B on CUDA cores.
template <class T>
void multiply_on_cores(const ChainsView& chains, const ChainValues& values, cudaStream_t stream) {
  switch (const std::uint32_t m = chains.m; m) {
    case 1:
      return launch_fma<T, 1, 1, 1, true>(chains, values, stream);
    case 2:
      return launch_fma<T, 2, 2, 2, true>(chains, values, stream);
    case 3:
      return launch_fma<T, 3, 1, 3, true>(chains, values, stream);
    case 4:
      return launch_fma<T, 4, 1, 4, true>(chains, values, stream);
    case 8:
      return launch_fma<T, 8, 2, 4, true>(chains, values, stream);
    case 16:
      return launch_fma<T, 16, 2, 4, true>(chains, values, stream);
    case 32:
    case 64:
      return launch_fma<T, 32, 4, 8, true>(chains, values, stream);
    default:
      if (m < 8) return launch_fma<T, 8, 2, 4, false>(chains, values, stream);
      if (m < 16) return launch_fma<T, 16, 2, 4, false>(chains, values, stream);
      return launch_fma<T, 32, 4, 8, false>(chains, values, stream);
  }
}

template <class T>
void multiply_chains(const ChainsView& chains, const ChainValues& values, cudaStream_t stream) {
  multiply_on_cores<T>(chains, values, stream);
}

}  // namespace spmm::kernels
