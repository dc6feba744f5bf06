#include "cuda/multiplier.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <stdexcept>

#include "cuda/host_driven.hpp"

namespace spmm::cuda {
namespace {

/// Tiles listed by expansion, without their pairs.
class TileList {
 public:
  TileList(DeviceMemory& memory, std::uint64_t max_pairs)
      : keys_{DeviceBuffer<std::uint64_t>(memory, max_pairs, "pair keys"),
              DeviceBuffer<std::uint64_t>(memory, max_pairs, "pair keys")},
        tiles_(memory, max_pairs, "tile keys"),
        num_unique_(memory, 1, "count"),
        work_(memory, max_pairs == 0 ? 0 : kernels::list_tiles_workspace_bytes(max_pairs), "tile work space") {}

  /// Replaces all tiles of the panel by those with pairs; waits for the stream.
  void list(const plan::Panel& panel, const Operands& operands, const Stream& stream, kernels::TilesView& tiles) {
    kernels::SortBuffers<std::uint64_t> keys{{keys_[0].data(), keys_[1].data()}};
    kernels::launch_list_tiles(operands.expand_view(), panel.row_begin, panel.num_rows, panel.first_pair,
                               panel.num_pairs, tiles.column_bits, keys, tiles_.data(), num_unique_.data(),
                               {.data = work_.data(), .bytes = work_.size()}, stream.get());
    tiles.num_tiles = fetch(num_unique_.data(), stream);
    tiles.keys = tiles_.data();
  }

 private:
  std::array<DeviceBuffer<std::uint64_t>, 2> keys_;  // [max_pairs] each
  DeviceBuffer<std::uint64_t> tiles_;                // [max_pairs]
  DeviceBuffer<std::uint32_t> num_unique_;
  DeviceBuffer<std::byte> work_;
};

/// two-pointer, binary-search and host-driven: the kernel, or the host, merges the lists of a tile.
class MergeMultiplier : public TileFiller {
 public:
  explicit MergeMultiplier(const MultiplierContext& context)
      : TileFiller(context), list_(context.memory, max_listed_pairs(context.execution.panels)) {
    if (context.execution.id == plan::KernelId::host_driven)
      host_driven_ = std::make_unique<HostDriven>(c_.operands, c_.stream);
  }

  kernels::TilesView fill(const plan::Panel& panel, const kernels::TileResults& results) override {
    kernels::TilesView tiles = all_tiles(panel, c_.operands.num_tile_columns());
    if (panel.expand) {
      c_.events.timed(Stage::count, c_.stream, [&] { list_.list(panel, c_.operands, c_.stream, tiles); });
    }
    const kernels::OperandView a = c_.operands.a_view();
    const kernels::OperandView b = c_.operands.b_view();
    c_.events.timed(Stage::multiply, c_.stream, [&] {
      if (host_driven_) {
        host_driven_->multiply(c_.operands, tiles, results, c_.stream, c_.run);
      } else if (c_.execution.id == plan::KernelId::binary_search) {
        kernels::launch_mul_binary_search(a, b, tiles, c_.operands.m, results, c_.stream.get());
      } else {
        kernels::launch_mul_two_pointer(a, b, tiles, c_.operands.m, results, c_.stream.get());
      }
    });
    return tiles;
  }

 private:
  TileList list_;
  std::unique_ptr<HostDriven> host_driven_;
};

}  // namespace

TileFiller::TileFiller(const MultiplierContext& context)
    : c_(context),
      values_(c_.memory, c_.max_tiles * c_.operands.m * c_.operands.m, "result elements"),
      non_zero_(c_.memory, c_.max_tiles, "flags"),
      positions_(c_.memory, c_.max_tiles, "positions"),
      work_(c_.memory, kernels::compact_workspace_bytes(c_.max_tiles), "panel work space") {}

void TileFiller::multiply(const plan::Panel& panel, PackedPanel& target) {
  const kernels::TileResults results{.values = values_.data(), .non_zero = non_zero_.data()};
  const kernels::TilesView tiles = fill(panel, results);
  c_.events.timed(Stage::compact, c_.stream, [&] {
    kernels::launch_positions(results.non_zero, tiles.num_tiles, positions_.data(), target.num_blocks.data(),
                              {.data = work_.data(), .bytes = work_.size()}, c_.stream.get());
    kernels::launch_pack_records(c_.operands.a.lines.data(), c_.operands.tile_columns(), tiles, results,
                                 positions_.data(), c_.operands.m,
                                 reinterpret_cast<std::uint32_t*>(target.records.data()), c_.stream.get());
  });
}

std::unique_ptr<Multiplier> make_multiplier(const MultiplierContext& context) {
  using plan::KernelId;
  switch (context.execution.id) {
    case KernelId::rows:
    case KernelId::row_spread:
    case KernelId::pair_list:
      return make_row_multiplier(context);
    case KernelId::dense_tensor:
      return make_dense_multiplier(context);
    case KernelId::dense_tiled:
      return make_dense_tiled_multiplier(context);
    case KernelId::two_pointer:
    case KernelId::binary_search:
    case KernelId::host_driven:
      return std::make_unique<MergeMultiplier>(context);
    case KernelId::row_merge:
    case KernelId::dense_blas:
    case KernelId::reference:
      break;
  }
  throw std::logic_error("no CUDA kernel: " + context.execution.kernel);
}

kernels::TilesView all_tiles(const plan::Panel& panel, std::uint32_t num_columns) {
  return {.num_tiles = std::uint64_t{panel.num_rows} * panel.num_columns,
          .keys = nullptr,
          .row_begin = panel.row_begin,
          .num_rows = panel.num_rows,
          .column_begin = panel.column_begin,
          .num_columns = panel.num_columns,
          .column_bits = static_cast<std::uint32_t>(std::bit_width(num_columns))};
}

std::uint64_t max_listed_pairs(const std::vector<plan::Panel>& panels) {
  std::uint64_t most = 0;
  for (const plan::Panel& panel : panels) {
    if (panel.expand) most = std::max(most, panel.num_pairs);
  }
  return most;
}

}  // namespace spmm::cuda
