// Dense product of elements of up to 14 bits with three byte products a multiply-add instead of four (Karatsuba).
// Compiled for sm_90a alone.
//
// With elements high << s | low, hh, ll and ss the sums of high * high, low * low and (high + low) * (high + low):
//   sum = hh << 2s + (ss - hh - ll) << s + ll.
// A thread has registers for one of the three sums of its 128 elements, and a byte of shared memory for each:
//   1. hh. An element with hh << 2s >= 2^32 - 1 is saturated, whatever follows: bit 7 of its byte. d = -hh << s.
//   2. + ll. Now d = (ll >> s) - hh and, below that, s bits of ll, exactly, as a signed number: hh < 2^(32 - 2s) if
//      bit 7 is not set, and ll < 65,536 * 2^2s <= 2^30. The s bits go to the byte; d = (2^s - 1) (hh - (ll >> s)) less
//      the s bits.
//   3. + ss. Now d = sum >> s, exactly, if bit 7 is not set: hh << s < 2^27, ss - hh - ll <= 65,536 * 2 * 127^2 and
//      ll >> s < 2^25 are less than 2^32 together. On the way sums wrap.
#include "kernels/block_side.cuh"
#include "kernels/tiles/stages.cuh"

namespace spmm::kernels {
namespace {

using tensor::CTile;
using tensor::FragmentOrigin;
using tensor::kMaxStages;
using tensor::List;

constexpr std::uint32_t kSums = 128;           // of a thread
constexpr std::uint32_t kHighCheckEvery = 64;  // stages of the first pass between checks for a saturated tile

struct Shared : tensor::Queue {
  std::uint32_t kept[kSums / 4][tensor::kConsumers];  // four bytes for four sums of a thread
};

/// Calls body(sum, byte) for each sum of a thread and its byte of shared memory.
template <class Body>
__device__ void for_sums(Shared& shared, std::uint32_t (&d)[kSums], const Body& body) {
#pragma unroll
  for (std::uint32_t word = 0; word < kSums / 4; ++word) {
    const std::uint32_t kept = shared.kept[word][threadIdx.x];
    std::uint32_t changed = 0;
#pragma unroll
    for (std::uint32_t e = 0; e < 4; ++e) changed |= body(d[4 * word + e], kept >> 8 * e & 0xFF) << 8 * e;
    shared.kept[word][threadIdx.x] = changed;
  }
}

/// Multiplies a list, three passes over each segment of K; ends early if high parts alone prove all elements saturated.
/// They are not checked on the way if they have been multiplied before, and do not. Returns how many stages were
/// multiplied.
template <std::uint32_t M>
__device__ std::uint32_t multiply_list(Shared& shared, const List& list, const TileProduct& product) {
  const std::uint32_t step = product.saturated.done == nullptr ? kHighCheckEvery : kMaxStages;
  const std::uint32_t num_stages = list.task.num_entries / 3;  // of each pass
  const FragmentOrigin origin = tensor::origin_in<1, M>(list.task);
  CTile tile = tensor::c_tile_of(product, list.task, tensor::limit_of_high(product.shift));
  std::uint32_t x = list.first;  // next stage
  for (std::uint32_t left = num_stages;; tile.merge = true) {
    const std::uint32_t stages = min(kMaxStages, left);
    std::uint32_t d[kSums] = {};
    bool saturated = false;
    for (const std::uint32_t end = x + stages; x != end && !saturated;) {
      const std::uint32_t next = x + min(step, end - x);
      tensor::multiply_stages(shared, d, x, next);
      x = next;
      saturated = tensor::all_agree(tensor::is_saturated<1>(d, tile, origin));
    }
    if (saturated) {
      tensor::stop_list(shared, list);
#pragma unroll
      for (std::uint32_t& sum : d) sum = kMaxVal;
    } else {
      const std::uint32_t mask = (1u << tile.shift) - 1;
      for_sums(shared, d, [&](std::uint32_t& sum, std::uint32_t) {
        const std::uint32_t byte = sum >= tile.limit ? 0x80 : 0;
        sum = 0u - (sum << tile.shift);
        return byte;
      });
      tensor::multiply_stages(shared, d, x, x + stages);
      for_sums(shared, d, [&](std::uint32_t& sum, std::uint32_t byte) {
        const std::uint32_t low = sum & mask;
        const auto high = static_cast<std::uint32_t>(static_cast<std::int32_t>(sum) >> tile.shift);
        sum = 0u - low - mask * high;
        return byte | low;
      });
      tensor::multiply_stages(shared, d, x + stages, x + 2 * stages);
      for_sums(shared, d, [&](std::uint32_t& sum, std::uint32_t byte) {
        sum = byte >= 0x80 || sum >= 1u << (32 - tile.shift) ? kMaxVal : sum << tile.shift | byte;
        return 0u;
      });
      x += 2 * stages;
    }
    tensor::store<1, M>(d, tile, origin);
    left -= stages;
    if (saturated || left == 0) return x - list.first;
  }
}

// Grid: as tile_tensor, of a full grid with three sets of tiles.
// Work: as tile_tensor; after each pass over a segment the consumers turn their sums into what the next one adds to.
// Memory: as tile_tensor, and a byte of shared memory for each sum.
template <std::uint32_t M>
__global__ void __launch_bounds__(tensor::kThreads, 1) karatsuba(const __grid_constant__ TileProduct product) {
  tensor::run_lists<Shared, true>(
      product, [&](Shared& shared, const List& list) { return multiply_list<M>(shared, list, product); });
}

}  // namespace

void launch_mul_karatsuba(const TileProduct& product, cudaStream_t stream) {
  for_block_side<8>(product.grid.m, [&](auto side) {  // places of 128 elements in blocks of 4 do not fit registers
    tensor::launch_lists<Shared>(karatsuba<decltype(side)::value>, product, stream);
  });
  check_launch("karatsuba");
}

}  // namespace spmm::kernels
