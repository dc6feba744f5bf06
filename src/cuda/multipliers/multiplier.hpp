// The multiply kernels behind one interface: each fills the C blocks of a panel in its own way. A kernel's host side is
// a file of this folder and a row of the table in multiplier.cpp.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "base/run/run.hpp"
#include "cuda/device/stage_events.hpp"
#include "cuda/operands/operands.hpp"
#include "cuda/output/panels.hpp"
#include "kernels/blocks/launch.hpp"
#include "kernels/rows/launch.hpp"
#include "plan/choice.hpp"

namespace spmm::cuda {

/// What every multiplier works with.
struct MultiplierContext {
  const SortedOperands& operands;
  const plan::Choice& execution;  // its panels, groups of columns and number of planes are taken as they stand
  DeviceMemory& memory;
  unsigned long long* num_saturated;  // [1], device: raised by elements at the limit, if they are counted at all
  unsigned long long* num_dropped;    // [1], device: raised by what run.selection drops; null: that is not asked for
  StageEvents& events;
  const Run& run;

  /// Largest number of a panel.
  template <class Of>
  [[nodiscard]] std::uint64_t most(const Of& of) const {
    std::uint64_t most = 0;
    for (const plan::Panel& panel : execution.panels) most = std::max<std::uint64_t>(most, of(panel));
    return most;
  }
  [[nodiscard]] std::uint64_t max_c_blocks() const { return plan::most_c_blocks(execution.panels); }
  [[nodiscard]] std::uint32_t max_rows() const {
    return static_cast<std::uint32_t>(most([](const plan::Panel& panel) { return panel.num_rows; }));
  }

  /// The C blocks of a panel before any listing: all of them.
  [[nodiscard]] kernels::CBlocksView all_c_blocks(const plan::Panel& panel) const;
  /// Where the records of a panel go.
  [[nodiscard]] kernels::RecordOutput output(const PanelTarget& target, std::uint64_t* look_back = nullptr) const;

  [[nodiscard]] const Stream& stream() const { return memory.stream(); }
  template <class Work>
  void timed(Stage stage, Work&& work) const {
    events.timed(stage, stream(), std::forward<Work>(work));
  }
};

class Multiplier {
 public:
  explicit Multiplier(const MultiplierContext& context) : c_(context) {}
  Multiplier(const Multiplier&) = delete;
  Multiplier& operator=(const Multiplier&) = delete;
  virtual ~Multiplier() = default;

  /// Puts the product of a panel on the stream: its records, and their number.
  virtual void multiply(const plan::Panel& panel, PanelTarget& target) = 0;

  /// Whether records may also go to arrays, behind those of other panels.
  [[nodiscard]] virtual bool writes_arrays() const { return true; }

 protected:
  const MultiplierContext c_;
  DeviceScratch scratch_{c_.memory};
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

 private:
  kernels::CBlockResults results_;
  std::uint32_t* positions_;  // [max_c_blocks]
  kernels::Workspace work_;
};

/// The pairs of a panel that is listed.
kernels::PanelPairs panel_pairs(const plan::Panel& panel, std::uint32_t column_bits);

/// Lists of C blocks with their pairs, one panel at a time.
class PairLists {
 public:
  /// Makes room for those of all panels that are listed, but of those with is_skipped(panel), whose pairs need none.
  PairLists(const MultiplierContext& context, const std::function<bool(const plan::Panel&)>& is_skipped);

  /// Lists a panel; its C blocks become those with pairs. Waits for the stream, unless the panel is known, and has been
  /// listed before. If it is the only one that is, the list is still there.
  kernels::PairListView list(const plan::Panel& panel, bool is_known, kernels::CBlocksView& c_blocks);
  [[nodiscard]] kernels::Workspace work() const { return work_; }

 private:
  const MultiplierContext c_;
  DeviceScratch scratch_{c_.memory};
  PinnedTable host_num_c_blocks_{c_.memory.context().tables()};
  kernels::PairListBuffers buffers_;
  kernels::Workspace work_;
  std::map<std::uint64_t, kernels::PairListView> lists_;  // of panels so far, by their first pair
};

/// The code of the execution's kernel, and what makes the selection of its panels if num_dropped is given.
std::unique_ptr<Multiplier> make_multiplier(const MultiplierContext& context);

using MakeMultiplier = std::unique_ptr<Multiplier>(const MultiplierContext& context);
MakeMultiplier make_selected;       ///< selected.cpp: one of these, and what the selection of the run keeps
MakeMultiplier make_rows;           ///< rows.cpp: ESC if a panel is listed, row-spread elsewhere
MakeMultiplier make_small;          ///< small.cpp: rows of small blocks, hashed, ranked or dense
MakeMultiplier make_ranked;         ///< ranked.cpp: rows whose C blocks are found first, sums by rank
MakeMultiplier make_dense_tensor;   ///< tiles.cpp: byte planes and tensor cores; panels span all block columns
MakeMultiplier make_tile_tensor;    ///< tiles.cpp: those tiles that are not empty
MakeMultiplier make_dense_tiled;    ///< dense_tiled.cpp: dense u16 copies and register C blocks on any device
MakeMultiplier make_two_pointer;    ///< baselines.cpp: pairs of each C block merged by a kernel
MakeMultiplier make_binary_search;  ///< baselines.cpp: searched by a kernel
MakeMultiplier make_host_driven;    ///< baselines.cpp: merged by the host

}  // namespace spmm::cuda
