// Which tiles of a product are not empty: counted before the exact decision, read by tile-tensor.
#pragma once

#include <cstdint>

#include "cuda/operands/sorted_rows.hpp"
#include "kernels/tiles/launch.hpp"
#include "plan/panels/tile_panels.hpp"

namespace spmm::cuda {

/// Owner of a TileMapsView whose tiles are counted.
struct TileMaps {
  kernels::TileGrid grid{};
  DeviceBuffer<std::uint32_t> a;
  DeviceBuffer<std::uint32_t> b;
  DeviceBuffer<std::uint32_t> c;
  plan::TileCounts counts{};

  [[nodiscard]] kernels::TileMapsView view() const {
    return {.grid = grid, .a = a.data(), .b = b.data(), .b_across = nullptr, .c = c.data()};
  }
};

/// Marks and counts tiles; those of C only if there are at most max_stages products of tiles. Nothing is counted
/// if a sample shows far more. Waits for the stream.
TileMaps count_tiles(const kernels::TileGrid& grid, const CompressedRows& a, const CompressedRows& b,
                     std::uint64_t max_stages, DeviceMemory& memory, const Stream& stream);

}  // namespace spmm::cuda
