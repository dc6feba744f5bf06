// The multiply kernels behind one interface: each fills the C blocks of a panel in its own way.
#pragma once

#include <memory>
#include <vector>

#include "base/run/run.hpp"
#include "cuda/device/stage_events.hpp"
#include "cuda/operands/operands.hpp"
#include "cuda/output/download.hpp"
#include "kernels/blocks/launch.hpp"
#include "kernels/rows/launch.hpp"
#include "plan/execution.hpp"

namespace spmm::cuda {

/// What every multiplier works with.
struct MultiplierContext {
  const DeviceOperands& operands;
  const plan::Execution& execution;  // its panels, groups of columns and number of planes are taken as they stand
  DeviceMemory& memory;
  std::uint64_t max_c_blocks;         // of a panel
  unsigned long long* num_saturated;  // [1], device: raised by elements at the limit, if they are counted at all
  const Stream& stream;
  StageEvents& events;
  const Run& run;
};

class Multiplier {
 public:
  virtual ~Multiplier() = default;

  /// Puts the product of a panel on the stream: its records, and their number.
  virtual void multiply(const plan::Panel& panel, PanelTarget& target) = 0;

  /// Whether records may also go to arrays, behind those of other panels.
  [[nodiscard]] virtual bool writes_arrays() const { return true; }
};

/// A multiplier whose kernel fills whole C blocks; zero blocks are dropped and the others packed afterwards.
class CBlockFiller : public Multiplier {
 public:
  explicit CBlockFiller(const MultiplierContext& context);

  void multiply(const plan::Panel& panel, PanelTarget& target) final;

 protected:
  /// Puts the product of a panel on the stream and returns its C blocks; their keys stay valid until the next call.
  /// Shapes: results hold panel.max_c_blocks() C blocks.
  virtual kernels::CBlocksView fill(const plan::Panel& panel, const kernels::CBlockResults& results) = 0;

  MultiplierContext c_;

 private:
  DeviceBuffer<std::uint32_t> values_;     // [max_c_blocks, m, m]
  DeviceBuffer<std::uint8_t> non_zero_;    // [max_c_blocks]
  DeviceBuffer<std::uint32_t> positions_;  // [max_c_blocks]
  DeviceBuffer<std::byte> work_;
};

/// What the kernels that sum by row multiply. They read some blocks of B at once: if B has fewer, it is copied.
class RowOperands {
 public:
  explicit RowOperands(const MultiplierContext& context);

  /// Stream: the copy, of the blocks as they are now.
  [[nodiscard]] kernels::RowProduct product() const;

 private:
  MultiplierContext c_;
  DeviceBuffer<std::uint16_t> few_b_values_;  // [kUnitBlocks, side, side], if B has fewer blocks
};

/// The code of the execution's kernel.
std::unique_ptr<Multiplier> make_multiplier(const MultiplierContext& context);

/// ESC if a panel is listed, row-spread elsewhere.
std::unique_ptr<Multiplier> make_row_multiplier(const MultiplierContext& context);
/// Rows of small blocks, hashed, ranked or dense.
std::unique_ptr<Multiplier> make_small_multiplier(const MultiplierContext& context);
/// Rows whose C blocks are found first, sums by rank.
std::unique_ptr<Multiplier> make_ranked_multiplier(const MultiplierContext& context);
/// Byte planes and tensor cores. Values: panels span all block columns.
std::unique_ptr<Multiplier> make_dense_multiplier(const MultiplierContext& context);
/// The same for those tiles that are not empty.
std::unique_ptr<Multiplier> make_tile_multiplier(const MultiplierContext& context);
/// Dense u16 copies and register C blocks on any device.
std::unique_ptr<Multiplier> make_dense_tiled_multiplier(const MultiplierContext& context);

/// Pairs of each C block merged by a kernel, or by the host.
std::unique_ptr<Multiplier> make_baseline_multiplier(const MultiplierContext& context);

/// The C blocks of a panel before any listing: all of them.
kernels::CBlocksView all_c_blocks(const plan::Panel& panel, std::uint32_t num_columns);

/// The pairs of a panel that is listed.
kernels::PanelPairs panel_pairs(const plan::Panel& panel, std::uint32_t column_bits);

/// Largest number of pairs of a listed panel; 0 without one.
std::uint64_t max_listed_pairs(const std::vector<plan::Panel>& panels);

}  // namespace spmm::cuda
