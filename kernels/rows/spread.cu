// row-spread: Gustavson's algorithm; a CTA sums one column chunk of one row of C in shared memory, a place for each
// block.
#include <algorithm>
#include <array>
#include <atomic>

#include "kernels/block_side.cuh"
#include "kernels/check.hpp"
#include "kernels/resident.hpp"
#include "kernels/rows/rounds.cuh"

namespace spmm::kernels {
namespace {

constexpr std::uint32_t kWarps = 16;
constexpr std::uint32_t kThreads = kWarps * 32;

/// The chunk of a CTA: which products it adds, and where.
struct Chunk {
  const RowSplits& splits;  // column chunks of the launch, in result order: a CTA sums one
  const RecordOutput& out;
  CBlockFlags& flags;    // C blocks that have pairs
  std::uint16_t* order;  // [num_c_blocks], shared: of the records
  std::uint32_t number;  // of the chunk in its row
  std::uint32_t first_column;
  std::uint32_t num_c_blocks;
  std::uint32_t begin;       // the row's first block of A
  std::uint32_t num_blocks;  // of A
  bool is_ordered_early;     // every C block with pairs is written, and these are known before products are added

  /// Flags the C block in a column, which has pairs.
  __device__ std::uint32_t slot_of(std::uint32_t column) const {
    const std::uint32_t c_block = column - first_column;
    atomicOr(&flags.words[c_block / 32], 1u << c_block % 32);  // other threads flag in the same words
    return c_block;
  }

  [[nodiscard]] __device__ BSegment segment(const RowProduct& product, std::uint32_t x) const {
    if (x >= num_blocks) return {0, 0};
    const std::uint32_t b_row = product.b_row_index[begin + x];
    if (b_row == kNoRow) return {0, 0};
    if (splits.offsets != nullptr) return segment_of_chunk(splits, b_row, number);
    return find_segment(product.b.index, b_row, first_column, first_column + (num_c_blocks - 1));
  }

  /// Has the first warp learn where the records of the flagged C blocks go, while the others multiply.
  /// Threads: all of the CTA.
  __device__ void all_placed() const {
    if (!is_ordered_early || threadIdx.x >= 32) return;
    find_output_offset(flags, num_c_blocks, out, gridDim.x);
    __syncwarp();  // before is written
    order_records(flags, num_c_blocks, order, 32);
  }
};

/// Takes the flags from C blocks that are zero: a thread looks at each, or a warp if they are large.
/// Threads: all of the CTA, once all products are added.
template <std::uint32_t M>
__device__ void drop_zeros(const Accumulators<M>& sums, std::uint32_t num_c_blocks, CBlockFlags& flags) {
  constexpr std::uint32_t kFewElements = 64;
  const std::uint32_t lane = threadIdx.x % 32;
  for (std::uint32_t w = threadIdx.x / 32; w * 32 < num_c_blocks; w += kWarps) {
    std::uint32_t word = flags.words[w];
    if (sums.elements() <= kFewElements) {
      word = __ballot_sync(~0u, (word >> lane & 1) != 0 && sums.any(w * 32 + lane));
    } else {
      for (std::uint32_t left = word; left != 0; left &= left - 1) {
        const auto x = static_cast<std::uint32_t>(__ffs(static_cast<int>(left)) - 1);
        if (!__any_sync(~0u, sums.any(w * 32 + x, lane, 32))) word &= ~(1u << x);
      }
    }
    __syncwarp();  // all lanes have read the word
    if (lane == 0) flags.words[w] = word;
  }
}

/// Writes the records of a chunk. are_written: those of all C blocks with pairs.
/// Threads: all of the CTA, once all products are added.
template <std::uint32_t P, std::uint32_t M>
__device__ void write_chunk(const Chunk& chunk, bool are_written, std::uint32_t block_row, std::uint32_t m,
                            const Accumulators<M>& sums) {
  if (!chunk.is_ordered_early) {
    if (!are_written) {
      drop_zeros(sums, chunk.num_c_blocks, chunk.flags);
      __syncthreads();  // flags are complete
    }
    if (threadIdx.x < 32) find_output_offset(chunk.flags, chunk.num_c_blocks, chunk.out, gridDim.x);
    __syncthreads();  // the output offset is known
    order_records(chunk.flags, chunk.num_c_blocks, chunk.order, kThreads);
    __syncthreads();  // the order is complete
  }
  const auto index_of = [&](std::uint32_t c_block) { return uint2{block_row, chunk.first_column + c_block}; };
  write_sums<P>(sums, m, chunk.flags, chunk.order, index_of, chunk.out);
}

// Grid: one CTA per block row of the panel and column chunk; they are handed out in result order as CTAs start.
// Work: in rounds of kThreads blocks of A: every thread finds the B segment of one block; then warps share the
// products.
//       At the end the CTA writes the records of its chunk. Where every C block with pairs is written, for sides up to
//       8, the first warp learns where they go while the others multiply; else the sums are searched before.
// Memory: B's blocks are read contiguously; sums are in shared memory, the lanes of a warp on different banks.
template <std::uint32_t P, std::uint32_t M, class Round>
__global__ void __launch_bounds__(kThreads, 2)
    mul_spread(RowProduct product, CBlocksView c_blocks, RowSplits splits, bool are_written, RecordOutput out) {
  extern __shared__ __align__(16) std::uint32_t shared[];
  __shared__ Round round;
  __shared__ CBlockFlags flags;
  __shared__ std::uint16_t order[CBlockFlags::kMaxCBlocks];
  if (!is_wanted(out)) return;
  const CompressedView& a = product.a.index;
  const std::uint32_t m = M != 0 ? M : product.m;
  if (threadIdx.x == 0) flags.cta = take_cta_number(out);
  for (std::uint32_t w = threadIdx.x; w < CBlockFlags::kMaxCBlocks / 32; w += kThreads) flags.words[w] = 0;
  __syncthreads();  // flags.cta is written
  const std::uint32_t row = c_blocks.row_begin + flags.cta / splits.num_chunks;
  const std::uint32_t number = flags.cta % splits.num_chunks;
  const std::uint32_t first_column = splits.first_column(number);
  const Chunk chunk{.splits = splits,
                    .out = out,
                    .flags = flags,
                    .order = order,
                    .number = number,
                    .first_column = first_column,
                    .num_c_blocks = splits.first_column(number + 1) - first_column,
                    .begin = a.offsets[row],
                    .num_blocks = a.offsets[row + 1] - a.offsets[row],
                    .is_ordered_early = P <= 8 && are_written};
  const Accumulators<M> sums(shared, m * m);
  sums.clear((chunk.num_c_blocks + kUnwritten<P>)*m * m);
  const BSegment segment = chunk.segment(product, threadIdx.x);
  if (chunk.num_blocks <= product.fitting_pairs) {  // no sum can leave 32 bits
    add_row<P, true>(round, product, chunk, segment, sums);
  } else {
    add_row<P, false>(round, product, chunk, segment, sums);
  }
  __syncthreads();  // all products are added, all C blocks with pairs flagged
  write_chunk<P>(chunk, are_written, out.rows[row], m, sums);
}

/// Dynamic shared memory that a CTA may take for its sums on the device at hand, which learns of it in the first call:
/// asking and telling it takes as long as a short kernel.
template <std::uint32_t P, std::uint32_t M, class Round>
std::uint32_t shared_limit() {
  constexpr std::uint32_t kStatic = sizeof(Round) + sizeof(CBlockFlags) + 2 * CBlockFlags::kMaxCBlocks;
  constexpr std::uint32_t kCtaBytes = 113u << 10;         // two per multiprocessor of 228 KB
  constexpr std::uint32_t kSmallSharedBytes = 26u << 10;  // if a device gives a CTA less
  constexpr std::uint32_t kMostBytes = std::min(kSpreadSharedBytes, (kCtaBytes - kStatic - 16) / 16 * 16);
  constexpr std::size_t kKnownDevices = 64;
  static std::array<std::atomic<std::uint32_t>, kKnownDevices> known{};
  int device = 0;
  check(cudaGetDevice(&device), "device");
  const auto number = static_cast<std::size_t>(device);
  if (number < kKnownDevices && known[number] != 0) return known[number];
  const std::uint32_t bytes = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  const std::uint32_t limit = bytes >= kMostBytes + kStatic ? kMostBytes : kSmallSharedBytes;
  check(cudaFuncSetAttribute(mul_spread<P, M, Round>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(limit)),
        "mul_spread shared memory");
  if (number < kKnownDevices) known[number] = limit;
  return limit;
}

/// Launches CTAs whose chunks are as wide as their shared memory allows for.
template <std::uint32_t P, std::uint32_t M, class Round>
void launch(const RowProduct& product, const CBlocksView& c_blocks, bool are_written, const RecordOutput& out,
            cudaStream_t stream) {
  const std::uint32_t c_block_bytes = product.m * product.m * 4;
  const std::uint32_t room = (shared_limit<P, M, Round>() - 16) / c_block_bytes - kUnwritten<P>;
  const std::uint32_t most = std::clamp(room, 1u, CBlockFlags::kMaxCBlocks);
  const std::uint32_t per_row = (c_blocks.num_columns - 1) / most + 1;
  RowSplits splits{.column_begin = c_blocks.column_begin,
                   .num_columns = c_blocks.num_columns,
                   .width = (c_blocks.num_columns - 1) / per_row + 1,
                   .num_chunks = per_row};
  const std::uint32_t num_ctas = per_row * c_blocks.num_rows;
  const std::size_t shared_bytes = ((splits.width + kUnwritten<P>)*c_block_bytes + 15) / 16 * 16;
  const std::uint64_t num_states = std::uint64_t{num_ctas} + 1;
  // There is scratch for as many look-back states as C blocks; behind those of the CTAs it holds split offsets, unless
  // rows are few.
  if (splits.num_offsets(product.b.index) / 2 + num_ctas < c_blocks.num_c_blocks) {
    splits.offsets = reinterpret_cast<std::uint32_t*>(out.look_back + num_states);
  }
  launch_split_rows(product.b.index, splits, out.look_back, num_states, stream);
  mul_spread<P, M, Round><<<num_ctas, kThreads, shared_bytes, stream>>>(product, c_blocks, splits, are_written, out);
  check_launch("mul_spread");
}

/// Whether B segments are long, and a row of A has enough of them for all warps. Measured on an H200: 33 blocks on
/// average (S1) as they are 0.362 ms, in units 0.423; 10 blocks of m = 6 in units 19 % faster.
bool has_long_segments(const RowProduct& product, const CBlocksView& c_blocks) {
  constexpr std::uint64_t kLongSegment = 16;
  constexpr std::uint64_t kSegmentsPerWarp = 4;
  const std::uint64_t width = std::min(c_blocks.num_columns, kSpreadSharedBytes / (product.m * product.m * 4));
  return product.num_a_blocks >= kSegmentsPerWarp * kWarps * product.a.index.num_rows &&
         product.num_b_blocks * width >= kLongSegment * product.b.index.num_rows * c_blocks.num_columns;
}

}  // namespace

void launch_mul_spread(const RowProduct& product, const CBlocksView& c_blocks, bool are_written,
                       const RecordOutput& out, cudaStream_t stream) {
  if (c_blocks.num_c_blocks == 0) {
    launch_no_records(out, stream);
    return;
  }
  for_row_sides(product.m, [&](auto side, auto m) {
    constexpr std::uint32_t kSide = decltype(side)::value;
    constexpr std::uint32_t kM = decltype(m)::value;
    if constexpr (kSide == 8) {
      if (has_long_segments(product, c_blocks)) {
        return launch<kSide, kM, DrawnRound<kWarps>>(product, c_blocks, are_written, out, stream);
      }
    }
    launch<kSide, kM, Round<kWarps, kSide>>(product, c_blocks, are_written, out, stream);
  });
}

}  // namespace spmm::kernels
