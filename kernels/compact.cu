// Drops all-zero result blocks and packs the others into output records.
#include <cub/device/device_scan.cuh>
#include <cuda/std/functional>

#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/launch.hpp"
#include "spmm/types.hpp"

namespace spmm::kernels {
namespace {

constexpr std::uint32_t kTilesPerCta = 16;

/// Counts from the last tile's position; a scan alone does not give the total.
__global__ void count_blocks(const std::uint8_t* non_zero, const std::uint32_t* positions, std::uint64_t num_tiles,
                             std::uint32_t* num_blocks) {
  *num_blocks = num_tiles == 0 ? 0 : positions[num_tiles - 1] + non_zero[num_tiles - 1];
}

// Grid: one CTA per kTilesPerCta tiles.
// Work: one thread per 32-bit word of the records {i, j, values}, so reads and writes are contiguous.
// Memory: no shared memory.
__global__ void pack_records(LinesView a, LinesView b, TilesView tiles, TileResults results,
                             const std::uint32_t* positions, std::uint32_t elements, std::uint32_t* records) {
  const std::uint32_t record_words = elements + 2;
  const std::uint64_t first = std::uint64_t{blockIdx.x} * kTilesPerCta;
  const auto count = static_cast<std::uint32_t>(tiles.num_tiles - first < kTilesPerCta ? tiles.num_tiles - first
                                                                                       : std::uint64_t{kTilesPerCta});
  for (std::uint32_t word = threadIdx.x; word < count * record_words; word += blockDim.x) {
    const std::uint64_t x = first + word / record_words;
    const std::uint32_t o = word % record_words;
    if (results.non_zero[x] == 0) continue;
    std::uint32_t value = 0;
    if (o >= 2) {
      value = results.values[x * elements + (o - 2)];
    } else {
      const Tile tile = tile_at(tiles, x);
      value = o == 0 ? a.lines[tile.row] : b.lines[tile.column];
    }
    records[std::uint64_t{positions[x]} * record_words + o] = value;
  }
}

}  // namespace

std::size_t compact_workspace_bytes(std::uint64_t max_tiles) {
  std::size_t bytes = 0;
  check(cub::DeviceScan::ExclusiveScan(nullptr, bytes, static_cast<const std::uint8_t*>(nullptr),
                                       static_cast<std::uint32_t*>(nullptr), cuda::std::plus<>{}, std::uint32_t{0},
                                       static_cast<std::int64_t>(max_tiles)),
        "compact workspace");
  return bytes;
}

void launch_positions(const std::uint8_t* non_zero, std::uint64_t num_tiles, std::uint32_t* positions,
                      std::uint32_t* num_blocks, Workspace work, cudaStream_t stream) {
  // The sum type follows the initial value: flags are bytes, positions are 32-bit.
  check(cub::DeviceScan::ExclusiveScan(work.data, work.bytes, non_zero, positions, cuda::std::plus<>{},
                                       std::uint32_t{0}, static_cast<std::int64_t>(num_tiles), stream),
        "positions");
  count_blocks<<<1, 1, 0, stream>>>(non_zero, positions, num_tiles, num_blocks);
  check_launch("count_blocks");
}

void launch_pack_records(const OperandView& a, const OperandView& b, const TilesView& tiles, const TileResults& results,
                         const std::uint32_t* positions, std::uint32_t m, std::uint32_t* records, cudaStream_t stream) {
  if (tiles.num_tiles == 0) return;
  const auto grid = static_cast<unsigned>((tiles.num_tiles + kTilesPerCta - 1) / kTilesPerCta);
  pack_records<<<grid, kItemThreads, 0, stream>>>(a.index, b.index, tiles, results, positions, m * m, records);
  check_launch("pack_records");
}

}  // namespace spmm::kernels
