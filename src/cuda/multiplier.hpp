// The multiply kernels behind one interface: each fills the tiles of a panel in its own way.
#pragma once

#include <memory>
#include <vector>

#include "base/run.hpp"
#include "cuda/download.hpp"
#include "cuda/operands.hpp"
#include "cuda/stage_events.hpp"
#include "plan/execution.hpp"

namespace spmm::cuda {

/// What every multiplier works with.
struct MultiplierContext {
  const Operands& operands;
  const plan::Execution& execution;  // its panels, groups of columns and number of planes are taken as they stand
  DeviceMemory& memory;
  std::uint64_t max_tiles;  // of a panel
  const Stream& stream;
  StageEvents& events;
  const Run& run;
};

class Multiplier {
 public:
  virtual ~Multiplier() = default;

  /// Puts the product of a panel on the stream: its records, packed, and their number.
  virtual void multiply(const plan::Panel& panel, PackedPanel& target) = 0;
};

/// A multiplier whose kernel fills whole tiles; zero blocks are dropped and the others packed afterwards.
class TileFiller : public Multiplier {
 public:
  explicit TileFiller(const MultiplierContext& context);

  void multiply(const plan::Panel& panel, PackedPanel& target) final;

 protected:
  /// Puts the product of a panel on the stream and returns its tiles; their keys stay valid until the next call.
  /// Shapes: results hold panel.max_tiles() tiles.
  virtual kernels::TilesView fill(const plan::Panel& panel, const kernels::TileResults& results) = 0;

  MultiplierContext c_;

 private:
  DeviceBuffer<std::uint32_t> values_;     // [max_tiles, m, m]
  DeviceBuffer<std::uint8_t> non_zero_;    // [max_tiles]
  DeviceBuffer<std::uint32_t> positions_;  // [max_tiles]
  DeviceBuffer<std::byte> work_;
};

/// The code of the execution's kernel.
std::unique_ptr<Multiplier> make_multiplier(const MultiplierContext& context);

/// Pair lists where a panel is listed, stretches of rows in shared memory elsewhere.
std::unique_ptr<Multiplier> make_row_multiplier(const MultiplierContext& context);
/// Byte planes and tensor cores. Values: panels span all block columns.
std::unique_ptr<Multiplier> make_dense_multiplier(const MultiplierContext& context);
/// Dense u16 copies and register tiles on any device.
std::unique_ptr<Multiplier> make_dense_tiled_multiplier(const MultiplierContext& context);

/// The tiles of a panel before any listing: all of them.
kernels::TilesView all_tiles(const plan::Panel& panel, std::uint32_t num_columns);

/// Largest number of pairs of a listed panel; 0 without one.
std::uint64_t max_listed_pairs(const std::vector<plan::Panel>& panels);

}  // namespace spmm::cuda
