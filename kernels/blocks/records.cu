// Drops all-zero C blocks and packs the others into output records; packed records to arrays; elements at the limit.
#include <algorithm>

#include "kernels/block_side.cuh"
#include "kernels/blocks/launch.hpp"
#include "kernels/blocks/record_output.cuh"
#include "kernels/check.hpp"
#include "kernels/device_wide.cuh"
#include "kernels/grid.cuh"
#include "kernels/items.cuh"
#include "kernels/warp.cuh"
#include "spmm/saturate.hpp"

namespace spmm::kernels {
namespace {

/// Elements at the limit in a word of one or two.
__device__ inline std::uint32_t num_saturated_in(std::uint32_t element) {
  return element == kMaxVal ? 1 : 0;
}
__device__ inline std::uint32_t num_saturated_in(std::uint64_t two) {
  return num_saturated_in(static_cast<std::uint32_t>(two)) + num_saturated_in(static_cast<std::uint32_t>(two >> 32));
}

/// Raises *total by what the lanes have counted, or does nothing where that is null. Threads: whole warps.
__device__ inline void add_saturated(std::uint32_t count, unsigned long long* total) {
  if (total == nullptr) return;
  const std::uint32_t of_warp = warp_total(count);
  if (of_warp != 0 && threadIdx.x % 32 == 0) atomicAdd(total, of_warp);  // across CTAs; most products have none
}

/// Records per CTA: of 8,192 32-bit words, about; 16 at least. Source: HISTORY.md, 64-bit words and 8,192 per CTA.
std::uint32_t records_per_cta(std::uint32_t m) {
  return std::max(16u, 8192 / (m * m + 2));
}

// Grid: one CTA per c_blocks_per_cta C blocks.
// Work: one thread per Word of the records {i, j, values}, so reads and writes are contiguous. Word: 64 bits where the
//       number of elements is even, else 32. M: 0 = at run time.
// Memory: no shared memory; positions and flags come from cache. Elements at the limit are counted on their way.
template <class Word, std::uint32_t M>
__global__ void __launch_bounds__(kItemThreads)
    pack_records(RecordPacking packing, CBlocksView c_blocks, CBlockResults results, std::uint32_t run_time_elements,
                 std::uint32_t c_blocks_per_cta, RecordOutput out) {
  constexpr std::uint32_t kPerWord = sizeof(Word) / 4;
  const std::uint32_t elements = M != 0 ? M * M : run_time_elements;
  const std::uint32_t head_words = RecordWords<Word>::kHeadWords;
  const std::uint32_t record_words = head_words + elements / kPerWord;
  const std::uint64_t first = std::uint64_t{blockIdx.x} * c_blocks_per_cta;
  const std::uint64_t left = c_blocks.num_c_blocks - first;
  const std::uint32_t count = left < c_blocks_per_cta ? static_cast<std::uint32_t>(left) : c_blocks_per_cta;
  const RecordWords<Word> to(out.to, records_of_panels_before(out));
  std::uint32_t saturated = 0;
#pragma unroll 4
  for (std::uint32_t word = threadIdx.x; word < count * record_words; word += kItemThreads) {
    const std::uint64_t x = first + word / record_words;
    const std::uint32_t o = word % record_words;
    if (results.non_zero[x] == 0) continue;
    Word value = 0;
    if (o >= head_words) {
      value = reinterpret_cast<const Word*>(results.values)[x * (elements / kPerWord) + (o - head_words)];
      saturated += num_saturated_in(value);
    } else {
      const CBlock c_block = c_block_at(c_blocks, x);
      const std::uint32_t i = out.rows[c_block.row];
      const std::uint32_t j = packing.columns == nullptr ? c_block.column : packing.columns[c_block.column];
      value = sizeof(Word) == 8 ? static_cast<Word>(std::uint64_t{j} << 32 | i) : static_cast<Word>(o == 0 ? i : j);
    }
    to.at(std::uint64_t{packing.positions[x]}, o) = value;
  }
  add_saturated(saturated, packing.num_saturated);
}

template <class Word, std::uint32_t M>
void pack(const CBlocksView& c_blocks, const CBlockResults& results, std::uint32_t m, const RecordPacking& packing,
          const RecordOutput& out, cudaStream_t stream) {
  const std::uint32_t c_blocks_per_cta = records_per_cta(m);
  const auto grid = static_cast<unsigned>((c_blocks.num_c_blocks + c_blocks_per_cta - 1) / c_blocks_per_cta);
  pack_records<Word, M><<<grid, kItemThreads, 0, stream>>>(packing, c_blocks, results, m * m, c_blocks_per_cta, out);
}

// Grid: one CTA per records_per_cta records.
// Work: one thread per 32-bit word.
// Memory: contiguous reads, contiguous writes but for the gaps of heads and elements.
__global__ void __launch_bounds__(kItemThreads)
    unpack_records(const std::uint32_t* records, std::uint64_t num_records, std::uint32_t elements,
                   std::uint32_t per_cta, std::uint32_t* heads, std::uint32_t* values) {
  const std::uint64_t first = std::uint64_t{blockIdx.x} * per_cta;
  const auto count = static_cast<std::uint32_t>(min(std::uint64_t{per_cta}, num_records - first));
  const std::uint32_t* const own = records + first * (2 + elements);
#pragma unroll 8
  for (std::uint32_t x = threadIdx.x; x < count * (2 + elements); x += kItemThreads) {
    const std::uint64_t record = first + x / (2 + elements);
    const std::uint32_t o = x % (2 + elements);
    (o < 2 ? heads[2 * record + o] : values[record * elements + (o - 2)]) = own[x];
  }
}

constexpr std::uint64_t kFoursPerThread = 32;

// Grid: one thread per kFoursPerThread times four words, which lie a grid apart.
// Work: words are compared with the limit. Heads of records may be among them: none is as large, since a matrix has at
//       most 2^32 - 1 block rows and columns.
// Memory: contiguous reads of 128 bits.
__global__ void __launch_bounds__(kItemThreads)
    count_saturated(const std::uint32_t* words, std::uint64_t num_words, unsigned long long* num_saturated) {
  std::uint32_t count = 0;
  for_each_item(num_words / 4, [&](std::uint64_t x) {
    const uint4 four = __ldcs(reinterpret_cast<const uint4*>(words) + x);
    for (const std::uint32_t element : {four.x, four.y, four.z, four.w}) count += num_saturated_in(element);
  });
  if (blockIdx.x == 0 && threadIdx.x < num_words % 4) count += num_saturated_in(words[num_words / 4 * 4 + threadIdx.x]);
  add_saturated(count, num_saturated);
}

}  // namespace

std::size_t compact_workspace_bytes(std::uint64_t max_c_blocks) {
  return Scan<NonZeroBlock>::workspace_bytes(max_c_blocks);
}

void launch_positions(const std::uint8_t* non_zero, std::uint64_t num_c_blocks, std::uint32_t* positions,
                      const RecordOutput& out, Workspace work, cudaStream_t stream) {
  Scan<NonZeroBlock>::launch({non_zero}, num_c_blocks, positions, work, stream, "positions");
  // The total from the last C block's position, which an exclusive scan does not give.
  launch_items(1, stream, "count_blocks", [=] __device__(std::uint64_t) {
    const std::uint32_t own = num_c_blocks == 0 ? 0 : positions[num_c_blocks - 1] + non_zero[num_c_blocks - 1];
    *out.num_blocks = records_of_panels_before(out) + own;
  });
}

void launch_pack_records(const CBlocksView& c_blocks, const CBlockResults& results, std::uint32_t m,
                         const RecordPacking& packing, const RecordOutput& out, cudaStream_t stream) {
  if (c_blocks.num_c_blocks == 0) return;
  for_block_side<4, 8>(m, [&](auto side) {
    constexpr std::uint32_t kM = decltype(side)::value;
    if (m % 2 == 0) {
      pack<std::uint64_t, kM>(c_blocks, results, m, packing, out, stream);
    } else if constexpr (kM == 0) {
      pack<std::uint32_t, 0>(c_blocks, results, m, packing, out, stream);
    }
  });
  check_launch("pack_records");
}

void launch_unpack_records(const std::uint32_t* records, std::uint64_t num_records, std::uint32_t m,
                           std::uint32_t* heads, std::uint32_t* values, cudaStream_t stream) {
  if (num_records == 0) return;
  const std::uint32_t per_cta = records_per_cta(m);
  const auto grid = static_cast<unsigned>((num_records + per_cta - 1) / per_cta);
  unpack_records<<<grid, kItemThreads, 0, stream>>>(records, num_records, m * m, per_cta, heads, values);
  check_launch("unpack_records");
}

void launch_count_saturated(const std::uint32_t* words, std::uint64_t num_words, unsigned long long* num_saturated,
                            cudaStream_t stream) {
  if (num_words == 0) return;
  const unsigned grid = item_grid(num_words / 4 / kFoursPerThread);
  count_saturated<<<grid, kItemThreads, 0, stream>>>(words, num_words, num_saturated);
  check_launch("count_saturated");
}

}  // namespace spmm::kernels
