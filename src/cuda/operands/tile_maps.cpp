// Bitmaps of tiles that are not empty, counted for the planner.
#include "cuda/operands/operands.hpp"

namespace spmm::cuda {
namespace {

/// Words of B's bitmap that those of C are the union of, at most: 0.5 GB from L2. Products with more are sparse over a
/// wide matrix.
constexpr std::uint64_t kMaxUnionWords = std::uint64_t{1} << 27;

DeviceBuffer<std::uint32_t> clear_words(DeviceMemory& memory, std::uint64_t count) {
  const Stream& stream = memory.stream();
  DeviceBuffer<std::uint32_t> words(memory, count, "tile bitmap");
  if (count != 0) check(cudaMemsetAsync(words.data(), 0, count * sizeof(std::uint32_t), stream.get()), "clear tiles");
  return words;
}

/// Share of all products of tiles beyond which dense-tensor is faster: it shares its tiles better in L2.
constexpr double kDenseShare = 0.5;

}  // namespace

TileMaps count_tiles(const kernels::TileGrid& grid, const CompressedRows& a, const CompressedRows& b,
                     std::uint64_t max_stages, DeviceMemory& memory) {
  const Stream& stream = memory.stream();
  const bool empty = grid.num_row_tiles() == 0 || b.num_rows == 0;
  const bool limited = max_stages != plan::kAnyTileStages;
  TileMaps maps{
      .grid = grid, .a = clear_words(memory, grid.a_words()), .b = clear_words(memory, grid.b_words()), .c = {}};
  plan::TileCounts& counts = maps.counts;
  counts.counted = true;
  if (empty) {
    counts.rows.resize(grid.num_row_tiles());
    return maps;
  }
  const DeviceBuffer<std::uint32_t> across = clear_words(memory, grid.b_across_words());
  const DeviceBuffer<std::uint32_t> b_per_k(memory, grid.num_k_tiles(), "tile counts");
  const DeviceBuffer<kernels::TileRowCounts> rows(memory, grid.num_row_tiles(), "tile counts");
  const DeviceBuffer<kernels::TileTotals> totals(memory, 1, "tile counts");
  kernels::TileMapsView view = maps.view();
  view.b_across = across.data();
  kernels::launch_mark_tiles(a.view(), b.view(), view, stream.get());
  kernels::launch_count_tiles(view, b_per_k.data(), rows.data(), totals.data(), stream.get());
  const kernels::TileTotals found = fetch(totals.data(), stream);
  const double all_stages = static_cast<double>(grid.c_tiles()) * grid.num_k_tiles();
  if (limited && static_cast<double>(found.stages) > kDenseShare * all_stages) return {};
  counts.a_tiles = found.a_tiles;
  counts.b_tiles = found.b_tiles;
  counts.stages = found.stages;
  if (found.stages > max_stages || (limited && found.a_tiles * grid.column_words() > kMaxUnionWords)) {
    return maps;
  }
  maps.c = {memory, grid.c_words(), "tile bitmap"};
  view.c = maps.c.data();
  kernels::launch_mark_c_tiles(view, rows.data(), stream.get());
  counts.rows = fetch_all(rows.data(), rows.size(), stream);
  return maps;
}

}  // namespace spmm::cuda
