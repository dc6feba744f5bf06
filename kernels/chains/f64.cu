// Chains of f64: on tensor cores from side 3 on, where these give the chain's bits. Padding along the inner index is
// -0 * +0, which leaves every sum as it is.
#include "kernels/chains/multiply.cuh"

namespace spmm::kernels {
namespace {

/// Sums of 8 x 8 elements: row lane / 4, columns 2 * (lane % 4) and the next one. a: row lane / 4, inner lane % 4; b:
/// inner lane % 4, column lane / 4. The four inner elements are added by fma, ascending. Threads: one whole warp.
__device__ inline void multiply_fragments(double (&sums)[2], double a, double b) {
#if __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1},{%2},{%3},{%0,%1};"
               : "+d"(sums[0]), "+d"(sums[1])
               : "d"(a), "d"(b));
#else  // no such instruction
  const std::uint32_t lane = threadIdx.x % 32;
  for (std::uint32_t k = 0; k < 4; ++k) {
    const double of_a = __shfl_sync(~0u, a, lane / 4 * 4 + k);
    const double even = __shfl_sync(~0u, b, lane % 4 * 8 + k);
    const double odd = __shfl_sync(~0u, b, lane % 4 * 8 + 4 + k);
    sums[0] = multiply_add(of_a, even, sums[0]);
    sums[1] = multiply_add(of_a, odd, sums[1]);
  }
#endif
}

/// Two neighbouring elements of a C block. Values: kIsWhole = the thread writes both, at a multiple of 16 bytes.
template <bool kIsWhole, bool kIsPlain>
struct TwoElements {
  double* to;
  const double* c;
  const Scaling<double>& scaling;
  bool writes_first = false;
  bool writes_second = false;
  double old[2] = {0, 0};  // of scaling.c

  __device__ void read_ahead() {
    if (kIsPlain || scaling.beta == 0) return;
    const double* const from = scaling.c + (to - c);
    if (writes_first) old[0] = from[0];
    if (writes_second) old[1] = from[1];
  }

  __device__ void write(const double (&sums)[2]) const {
    const double first = kIsPlain ? stored(sums[0]) : scaling.element(sums[0], old[0]);
    const double second = kIsPlain ? stored(sums[1]) : scaling.element(sums[1], old[1]);
    if constexpr (kIsWhole) {
      if (writes_first) *reinterpret_cast<double2*>(to) = double2{first, second};
    } else {
      if (writes_first) to[0] = first;
      if (writes_second) to[1] = second;
    }
  }
};

// Grid: one warp per two streams.
// Work: sides 3 and 4. Each stream has four rows of A's fragment and four columns of B's; of the 8 x 8 sums 4 x 4 are
// of
//       each, and the rest is waste: S2 on an H200 6.3 ms, 9.6 by fma.
// Memory: a lane reads one element of each block; those of kAtOnce pairs are in flight, and two elements of c ahead.
template <bool kIsFour, std::uint32_t kAtOnce, bool kIsPlain>
__global__ void __launch_bounds__(kItemThreads)
    multiply_small(StreamsView streams, const double* a, const double* b, double* c, Scaling<double> scaling) {
  const Link* const links = streams.chains.links;
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t half = lane / 16;
  const std::uint32_t m = kIsFour ? 4 : streams.chains.m;
  const std::uint32_t warp = cta_number(streams.row_ctas) * kItemWarps + threadIdx.x / 32;
  const std::uint32_t stream = warp * 2 + half;
  StreamBlocks<kIsPlain, true> blocks(streams, stream);
  std::uint32_t p = blocks.begin;
  const std::uint32_t end = blocks.end;
  const std::uint32_t g = lane / 4 % 4;  // row of A's block, column of B's
  const std::uint32_t t = lane % 4;      // inner element
  const bool reads = kIsFour || (g < m && t < m);
  const std::uint32_t of_a = g * m + t;
  const std::uint32_t of_b = t * m + g;
  const std::uint32_t column = 2 * (t % 2);  // of the first sum
  const bool writes = t / 2 == half && (kIsFour || g < m);
  TwoElements<kIsFour, kIsPlain> elements{.to = c + std::uint64_t{blocks.first} * m * m + g * m + column,
                                          .c = c,
                                          .scaling = scaling,
                                          .writes_first = writes && column < m,
                                          .writes_second = writes && column + 1 < m};
  double sums[2] = {0, 0};
  if (!kIsPlain && blocks.has_next()) elements.read_ahead();
  const auto write_block = [&] {
    elements.write(sums);
    elements.to += m * m;
    if (!kIsPlain && blocks.has_next()) elements.read_ahead();
    sums[0] = sums[1] = 0;
  };
  while (__any_sync(~0u, p < end)) {
    Link link[kAtOnce];
    double left[kAtOnce];
    double right[kAtOnce];
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) link[u] = p + u < end ? links[p + u] : Link{};
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) {
      left[u] = -0.0;
      right[u] = 0.0;
      if (reads && p + u < end) {
        left[u] = a[std::uint64_t{link[u].a & ~kFirstOfBlock} * m * m + of_a];
        right[u] = b[std::uint64_t{link[u].b} * m * m + of_b];
      }
    }
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) {
      if (kIsPlain || p + u < end) blocks.write_before(p + u, link[u], write_block);
      __syncwarp();  // all lanes take part in what follows
      multiply_fragments(sums, left[u], right[u]);
    }
    p += kAtOnce;
  }
  blocks.write_rest(write_block);
}

// Grid: one warp per stream.
// Work: sides 5 to 8: two fragments along the inner index.
// Memory: a lane reads two elements of each block; those of four pairs are in flight, and two elements of c ahead.
template <bool kIsEight, bool kIsPlain>
__global__ void __launch_bounds__(kItemThreads)
    multiply_fragment(StreamsView streams, const double* a, const double* b, double* c, Scaling<double> scaling) {
  constexpr std::uint32_t kAtOnce = 4;
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t m = kIsEight ? 8 : streams.chains.m;
  const std::uint32_t stream = cta_number(streams.row_ctas) * kItemWarps + threadIdx.x / 32;
  if (stream >= streams.count) return;
  const std::uint32_t g = lane / 4;
  const std::uint32_t t = lane % 4;
  StreamBlocks<kIsPlain, true> blocks(streams, stream);
  const std::uint32_t begin = blocks.begin;
  const std::uint32_t end = blocks.end;
  TwoElements<kIsEight, kIsPlain> elements{.to = c + std::uint64_t{blocks.first} * m * m + g * m + 2 * t,
                                           .c = c,
                                           .scaling = scaling,
                                           .writes_first = g < m && 2 * t < m,
                                           .writes_second = g < m && 2 * t + 1 < m};
  double sums[2] = {0, 0};
  if (!kIsPlain && blocks.has_next()) elements.read_ahead();
  const auto write_block = [&] {
    elements.write(sums);
    elements.to += m * m;
    if (!kIsPlain && blocks.has_next()) elements.read_ahead();
    sums[0] = sums[1] = 0;
  };
  for (std::uint32_t base = begin; base < end; base += 32) {
    const Link own = base + lane < end ? streams.chains.links[base + lane] : Link{};
    const std::uint32_t num = min(32u, end - base);
    for (std::uint32_t q = 0; q < num; q += kAtOnce) {
      double left[kAtOnce][2];
      double right[kAtOnce][2];
      std::uint32_t firsts = 0;
#pragma unroll
      for (std::uint32_t u = 0; u < kAtOnce; ++u) {
        if (q + u >= num) break;
        const Link link{__shfl_sync(~0u, own.a, q + u), __shfl_sync(~0u, own.b, q + u)};
        firsts |= link.a >> 31 << u;
        const double* const from_a = a + std::uint64_t{link.a & ~kFirstOfBlock} * m * m;
        const double* const from_b = b + std::uint64_t{link.b} * m * m;
#pragma unroll
        for (std::uint32_t s = 0; s < 2; ++s) {
          const bool is_inside = kIsEight || (g < m && 4 * s + t < m);
          left[u][s] = is_inside ? from_a[g * m + 4 * s + t] : -0.0;
          right[u][s] = is_inside ? from_b[(4 * s + t) * m + g] : 0.0;
        }
      }
#pragma unroll
      for (std::uint32_t u = 0; u < kAtOnce; ++u) {
        if (q + u >= num) break;
        blocks.write_before(base + q + u, {firsts >> u << 31, 0}, write_block);
        multiply_fragments(sums, left[u][0], right[u][0]);
        multiply_fragments(sums, left[u][1], right[u][1]);
      }
    }
  }
  blocks.write_rest(write_block);
}

// Grid: one warp per stream and tile of 2 x 2 fragments.
// Work: sides from 9. Values: kExact = m is a multiple of 16.
// Memory: a lane reads two elements of each block for four fragments.
template <bool kExact, bool kIsPlain>
__global__ void __launch_bounds__(kItemThreads)
    multiply_tiles(StreamsView streams, const double* a, const double* b, double* c, Scaling<double> scaling) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t m = streams.chains.m;
  const std::uint32_t tiles = (m + 15) / 16;
  const std::uint32_t number = cta_number(streams.row_ctas) * kItemWarps + threadIdx.x / 32;
  const std::uint32_t stream = number / (tiles * tiles);
  if (stream >= streams.count) return;
  const std::uint32_t tile = number % (tiles * tiles);
  const std::uint32_t g = lane / 4;
  const std::uint32_t t = lane % 4;
  const std::uint32_t row0 = tile / tiles * 16 + g;
  const std::uint32_t column0 = tile % tiles * 16;
  StreamBlocks<kIsPlain, true> blocks(streams, stream);
  const std::uint32_t begin = blocks.begin;
  const std::uint32_t end = blocks.end;
  double* to = c + std::uint64_t{blocks.first} * m * m;
  double sums[2][2][2] = {};
  const auto write_block = [&] {
#pragma unroll
    for (std::uint32_t y = 0; y < 2; ++y) {
#pragma unroll
      for (std::uint32_t x = 0; x < 2; ++x) {
        double(&two)[2] = sums[y][x];
        const std::uint32_t row = row0 + 8 * y;
        const std::uint32_t column = column0 + 8 * x + 2 * t;
        TwoElements<kExact, kIsPlain> elements(to + row * m + column, c, scaling, row < m && column < m,
                                               row < m && column + 1 < m);
        elements.read_ahead();
        elements.write(two);
        two[0] = two[1] = 0;
      }
    }
    to += m * m;
  };
  for (std::uint32_t base = begin; base < end; base += 32) {
    const Link own = base + lane < end ? streams.chains.links[base + lane] : Link{};
    const std::uint32_t num = min(32u, end - base);
    for (std::uint32_t q = 0; q < num; ++q) {
      const Link link{__shfl_sync(~0u, own.a, q), __shfl_sync(~0u, own.b, q)};
      blocks.write_before(base + q, link, write_block);
      const double* const from_a = a + std::uint64_t{link.a & ~kFirstOfBlock} * m * m;
      const double* const from_b = b + std::uint64_t{link.b} * m * m;
#pragma unroll 2
      for (std::uint32_t k = t; k < m + t; k += 4) {  // as often for all lanes
        double left[2];
        double right[2];
#pragma unroll
        for (std::uint32_t y = 0; y < 2; ++y) {
          const std::uint32_t row = row0 + 8 * y;
          const std::uint32_t column = column0 + 8 * y + g;
          left[y] = kExact || (row < m && k < m) ? from_a[row * m + k] : -0.0;
          right[y] = kExact || (column < m && k < m) ? from_b[k * m + column] : 0.0;
        }
#pragma unroll
        for (std::uint32_t y = 0; y < 2; ++y) {
#pragma unroll
          for (std::uint32_t x = 0; x < 2; ++x) multiply_fragments(sums[y][x], left[y], right[x]);
        }
      }
    }
  }
  blocks.write_rest(write_block);
}

}  // namespace

template <>
void multiply_chains<double>(const ChainsView& chains, const ChainValues& values, cudaStream_t stream) {
  const std::uint32_t m = chains.m;
  if (!chains.has_exact_mma || m < 3) return multiply_on_cores<double>(chains, values, stream);
  if (m <= 4) {
    const StreamShape shape{.groups = 2, .most_blocks = m == 4 ? 64u : 32u};
    const auto plain = m == 4 ? multiply_small<true, 8, true> : multiply_small<false, 4, true>;
    const auto scaled = m == 4 ? multiply_small<true, 8, false> : multiply_small<false, 4, false>;
    launch_streams<double>(plain, scaled, chains, shape, values, stream, "multiply_small");
  } else if (m <= 8) {
    const auto plain = m == 8 ? multiply_fragment<true, true> : multiply_fragment<false, true>;
    const auto scaled = m == 8 ? multiply_fragment<true, false> : multiply_fragment<false, false>;
    launch_streams<double>(plain, scaled, chains, {.most_blocks = 32}, values, stream, "multiply_fragment");
  } else {
    const std::uint32_t tiles = (m + 15) / 16;
    const StreamShape shape{.tiles = tiles * tiles, .most_blocks = 32};
    const auto plain = m % 16 == 0 ? multiply_tiles<true, true> : multiply_tiles<false, true>;
    const auto scaled = m % 16 == 0 ? multiply_tiles<true, false> : multiply_tiles<false, false>;
    launch_streams<double>(plain, scaled, chains, shape, values, stream, "multiply_tiles");
  }
}

}  // namespace spmm::kernels
