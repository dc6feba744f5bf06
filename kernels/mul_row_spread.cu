// For rows that meet many columns: a CTA keeps a stretch of result blocks of one block row in shared memory.
#include <algorithm>

#include "kernels/check.hpp"
#include "kernels/launch.hpp"
#include "kernels/record_output.cuh"
#include "kernels/row_spread.cuh"

namespace spmm::kernels {
namespace {

constexpr std::uint32_t kThreads = 512;
constexpr std::uint32_t kWarps = kThreads / 32;
constexpr std::uint32_t kSharedBytes = 100u << 10;      // two CTAs per multiprocessor of 228 KB
constexpr std::uint32_t kSmallSharedBytes = 43u << 10;  // where a device gives a CTA no more than 48 KB

/// The stretches of one launch, in result order.
struct Stretches {
  std::uint32_t tiles_per_stretch;
  std::uint32_t per_row;
  std::uint32_t num_ctas;
};

/// Whichever way of adding is made for M.
template <std::uint32_t M, bool Fits>
__device__ void add_block(const std::uint16_t* a_block, const OperandView& b, Meeting meeting,
                          std::uint32_t first_column, std::uint32_t m, const Accumulators<M>& sums) {
  if constexpr (M == 4) {
    add_meeting_4<Fits>(a_block, b, meeting, first_column, sums);
  } else if constexpr (M == 8) {
    add_meeting_8<Fits>(a_block, b, meeting, first_column, sums);
  } else if constexpr (M >= 16) {
    add_meeting_wide<M, Fits>(a_block, b, meeting, first_column, sums);
  } else {
    add_meeting_any_m(a_block, b, meeting, first_column, m, sums);
  }
}

/// Flags the tiles that are not zero. All threads of the CTA call it.
template <std::uint32_t M, bool Fits>
__device__ void flag_tiles(const Accumulators<M>& sums, std::uint32_t num_tiles, TileFlags& flags) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t num_words = (num_tiles + 31) / 32;
  for (std::uint32_t w = threadIdx.x / 32; w < num_words; w += kWarps) {
    std::uint32_t word = 0;
    if constexpr (M == 4 || M == 8) {  // a thread per tile; lanes start at different elements, in different banks
      constexpr std::uint32_t kQuarters = M * M / 4;
      const std::uint32_t tile = w * 32 + lane;
      bool any = false;
      for (std::uint32_t x = 0; x < kQuarters && !any && tile < num_tiles; ++x) {
        any = sums.template any_of_four<Fits>(tile, (x + (M == 4 ? lane / 2 : lane)) % kQuarters);
      }
      word = __ballot_sync(~0u, any);
    } else {  // a warp per tile
      for (std::uint32_t t = 0; t < 32 && w * 32 + t < num_tiles; ++t) {
        bool any = false;
        for (std::uint32_t e = lane; e < sums.elements() && !any; e += 32) {
          any = sums.template value<Fits>(w * 32 + t, e) != 0;
        }
        if (__any_sync(~0u, any)) word |= 1u << t;
      }
    }
    if (lane == 0) flags.words[w] = word;
  }
}

/// The sums become records. All threads of the CTA call it. Shapes: order [num_tiles], shared.
template <std::uint32_t M, bool Fits>
__device__ void deliver(const Accumulators<M>& sums, std::uint32_t num_tiles, std::uint32_t m, uint2 first_index,
                        std::uint32_t num_ctas, TileFlags& flags, std::uint16_t* order, const RecordOutput& out) {
  flag_tiles<M, Fits>(sums, num_tiles, flags);
  __syncthreads();  // flags are complete
  if (threadIdx.x < 32) place_records(flags, num_tiles, out, num_ctas);
  __syncthreads();  // the place is known
  order_records(flags, num_tiles, order);
  __syncthreads();  // the order is complete
  const auto value_at = [&](std::uint32_t tile, std::uint32_t x) {
    if constexpr (M != 0) {
      return sums.template pair<Fits>(tile, x);
    } else {
      return sums.template value<Fits>(tile, x);
    }
  };
  const auto index_of = [&](std::uint32_t tile) { return uint2{first_index.x, first_index.y + tile}; };
  write_records<M>(flags, order, m, out, value_at, index_of);
}

// Grid: one CTA per block row of the panel and stretch of columns; places are handed out in result order.
// Work: every thread finds the blocks of B that one block of A meets in the stretch; then a warp takes blocks of A in
//       turn and walks the blocks of B that they meet. At the end the CTA writes the records of its stretch.
// Memory: B's blocks are read contiguously; sums live in shared memory, the lanes of a warp on different banks.
template <std::uint32_t M>
__global__ void __launch_bounds__(kThreads, 2)
    mul_row_spread(OperandView a, OperandView b, const std::uint32_t* b_row_slots, TilesView tiles, Stretches stretches,
                   std::uint32_t run_time_m, std::uint32_t max_element, RecordOutput out) {
  extern __shared__ __align__(16) std::uint32_t shared[];
  __shared__ Meeting meetings[kThreads];
  __shared__ TileFlags flags;
  const std::uint32_t m = M != 0 ? M : run_time_m;
  const std::uint32_t elements = m * m;
  if (threadIdx.x == 0) flags.cta = take_place(out);
  __syncthreads();  // everyone knows the place
  const std::uint32_t row = tiles.row_begin + flags.cta / stretches.per_row;
  const std::uint32_t skipped = flags.cta % stretches.per_row * stretches.tiles_per_stretch;
  const std::uint32_t first_column = tiles.column_begin + skipped;
  const std::uint32_t num_tiles = min(stretches.tiles_per_stretch, tiles.num_columns - skipped);
  const Accumulators<M> sums(shared, num_tiles, elements);
  for (std::uint32_t x = threadIdx.x; x < (num_tiles * tile_words(elements) + 3) / 4; x += kThreads) {
    reinterpret_cast<uint4*>(shared)[x] = uint4{0, 0, 0, 0};
  }

  const std::uint32_t end = a.index.offsets[row + 1];
  const std::uint64_t num_terms = std::uint64_t{end - a.index.offsets[row]} * m;  // of an element at most
  const bool fits = num_terms * max_element <= kMaxVal / max(max_element, 1u);
  for (std::uint32_t first = a.index.offsets[row]; first < end; first += kThreads) {
    const std::uint32_t count = min(kThreads, end - first);
    if (threadIdx.x < count) {
      meetings[threadIdx.x] = find_meeting(b.index, b_row_slots[first + threadIdx.x], first_column, num_tiles);
    }
    __syncthreads();  // meetings are listed, in the first round also: all sums are zero
    for (std::uint32_t x = threadIdx.x / 32; x < count; x += kWarps) {
      const std::uint16_t* const a_block = a.values + std::uint64_t{first + x} * elements;
      if (fits) {
        add_block<M, true>(a_block, b, meetings[x], first_column, m, sums);
      } else {
        add_block<M, false>(a_block, b, meetings[x], first_column, m, sums);
      }
    }
    __syncthreads();  // meetings may be replaced; after the last round: all products are in
  }

  static_assert(sizeof meetings >= TileFlags::kMaxTiles * sizeof(std::uint16_t));
  auto* const order = reinterpret_cast<std::uint16_t*>(meetings);  // not needed any more
  const uint2 first_index{out.rows[row], first_column};
  if (fits) {
    deliver<M, true>(sums, num_tiles, m, first_index, stretches.num_ctas, flags, order, out);
  } else {
    deliver<M, false>(sums, num_tiles, m, first_index, stretches.num_ctas, flags, order, out);
  }
}

/// Dynamic shared memory that a CTA may take on this device for its sums.
std::uint32_t shared_limit() {
  int device = 0;
  int bytes = 0;
  check(cudaGetDevice(&device), "device");
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "shared memory limit");
  constexpr std::uint32_t kStatic = kThreads * sizeof(Meeting) + sizeof(TileFlags);
  return static_cast<std::uint32_t>(bytes) >= kSharedBytes + kStatic ? kSharedBytes : kSmallSharedBytes;
}

template <std::uint32_t M>
void launch(const OperandView& a, const OperandView& b, const std::uint32_t* b_row_slots, const TilesView& tiles,
            std::uint32_t m, std::uint32_t max_element, const RecordOutput& out, cudaStream_t stream) {
  const std::uint32_t tile_bytes = tile_words(m * m) * 4;
  const std::uint32_t limit = shared_limit();
  const std::uint32_t most = std::clamp((limit - 16) / tile_bytes, 1u, TileFlags::kMaxTiles);
  const std::uint32_t per_row = (tiles.num_columns - 1) / most + 1;
  const std::uint32_t width = (tiles.num_columns - 1) / per_row + 1;
  const Stretches stretches{.tiles_per_stretch = width, .per_row = per_row, .num_ctas = per_row * tiles.num_rows};
  const std::size_t shared_bytes = (std::size_t{width} * tile_bytes + 15) / 16 * 16;
  check(cudaFuncSetAttribute(mul_row_spread<M>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(limit)),
        "mul_row_spread shared memory");
  check(cudaMemsetAsync(out.states, 0, (std::size_t{stretches.num_ctas} + 1) * sizeof(std::uint64_t), stream),
        "clear places");
  mul_row_spread<M><<<stretches.num_ctas, kThreads, shared_bytes, stream>>>(a, b, b_row_slots, tiles, stretches, m,
                                                                            max_element, out);
}

}  // namespace

void launch_mul_row_spread(const OperandView& a, const OperandView& b, const std::uint32_t* b_row_slots,
                           const TilesView& tiles, std::uint32_t m, std::uint32_t max_element, const RecordOutput& out,
                           cudaStream_t stream) {
  if (tiles.num_tiles == 0) {
    check(cudaMemsetAsync(out.num_blocks, 0, sizeof(std::uint32_t), stream), "no records");
    return;
  }
  switch (m) {
    case 4:
      launch<4>(a, b, b_row_slots, tiles, m, max_element, out, stream);
      break;
    case 8:
      launch<8>(a, b, b_row_slots, tiles, m, max_element, out, stream);
      break;
    case 16:
      launch<16>(a, b, b_row_slots, tiles, m, max_element, out, stream);
      break;
    case 32:
      launch<32>(a, b, b_row_slots, tiles, m, max_element, out, stream);
      break;
    case 64:
      launch<64>(a, b, b_row_slots, tiles, m, max_element, out, stream);
      break;
    default:
      launch<0>(a, b, b_row_slots, tiles, m, max_element, out, stream);
  }
  check_launch("mul_row_spread");
}

}  // namespace spmm::kernels
