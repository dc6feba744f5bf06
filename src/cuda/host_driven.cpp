#include "cuda/host_driven.hpp"

#include <algorithm>

namespace spmm::cuda {
namespace {

constexpr std::uint64_t kPairsInFlight = 1u << 16;

}  // namespace

HostDriven::HostDriven(const Operands& operands, const Stream& stream)
    : a_(fetch_lines(operands.a, stream)),
      b_(fetch_lines(operands.b, stream)),
      pairs_(std::max({kPairsInFlight, std::uint64_t{a_.inner.size()}, std::uint64_t{1}})) {}

HostDriven::HostLines HostDriven::fetch_lines(const Lines& lines, const Stream& stream) {
  HostLines out{.offsets = std::vector<std::uint32_t>(lines.num_lines + std::size_t{1}),
                .inner = std::vector<std::uint32_t>(lines.inner.size())};
  if (lines.num_lines == 0) return out;
  copy_async(out.offsets.data(), lines.offsets.data(), out.offsets.size(), stream);
  copy_async(out.inner.data(), lines.inner.data(), out.inner.size(), stream);
  stream.synchronize();
  return out;
}

void HostDriven::merge(const kernels::Tile& tile) {
  matches_.clear();
  std::uint32_t pa = a_.offsets[tile.row];
  std::uint32_t pb = b_.offsets[tile.column];
  while (pa < a_.offsets[tile.row + 1] && pb < b_.offsets[tile.column + 1]) {
    const std::uint32_t in_a = a_.inner[pa];
    const std::uint32_t in_b = b_.inner[pb];
    if (in_a == in_b) matches_.push_back({.a = pa, .b = pb});
    pa += in_a <= in_b ? 1 : 0;
    pb += in_b <= in_a ? 1 : 0;
  }
}

void HostDriven::multiply(const Operands& operands, const kernels::TilesView& tiles,
                          const kernels::TileResults& results, const Stream& stream, const Run& run) {
  std::vector<std::uint64_t> keys;
  kernels::TilesView host_tiles = tiles;
  if (tiles.keys != nullptr) {
    keys.resize(tiles.num_tiles);
    copy_async(keys.data(), tiles.keys, tiles.num_tiles, stream);
    stream.synchronize();
    host_tiles.keys = keys.data();
  }
  check(cudaMemsetAsync(results.non_zero, 0, tiles.num_tiles, stream.get()), "clear flags");
  std::uint64_t used = 0;
  for (std::uint64_t x = 0; x < tiles.num_tiles; ++x) {
    if (x % 1024 == 0) run.check_cancelled();
    merge(kernels::tile_at(host_tiles, x));
    if (matches_.empty()) continue;
    if (used + matches_.size() > pairs_.size()) {
      stream.synchronize();  // the device has read every list
      used = 0;
    }
    std::copy(matches_.begin(), matches_.end(), pairs_.data() + used);
    kernels::launch_mul_listed(operands.a_view(), operands.b_view(), pairs_.data() + used,
                               static_cast<std::uint32_t>(matches_.size()), x, operands.m, results, stream.get());
    used += matches_.size();
  }
  stream.synchronize();
}

}  // namespace spmm::cuda
