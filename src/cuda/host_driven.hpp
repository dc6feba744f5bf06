// The oldest variant's host side: walks the lists of every tile and launches one result block at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "base/run.hpp"
#include "cuda/operands.hpp"
#include "cuda/raii.hpp"
#include "kernels/launch.hpp"

namespace spmm::cuda {

/// Index lists of both operands on the host, and the pair lists on their way to the device.
class HostDriven {
 public:
  HostDriven(const Operands& operands, const Stream& stream);

  /// Multiplies all tiles of a panel; waits for the stream. Errors: Interrupted.
  void multiply(const Operands& operands, const kernels::TilesView& tiles, const kernels::TileResults& results,
                const Stream& stream, const Run& run);

 private:
  struct HostLines {
    std::vector<std::uint32_t> offsets;
    std::vector<std::uint32_t> inner;
  };
  static HostLines fetch_lines(const Lines& lines, const Stream& stream);
  void merge(const kernels::Tile& tile);

  HostLines a_;
  HostLines b_;
  std::vector<kernels::BlockPair> matches_;  // of the current tile
  PinnedBuffer<kernels::BlockPair> pairs_;   // of tiles in flight, read by the device in place
};

}  // namespace spmm::cuda
