// Shares the row panels of a product out among several devices. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/panels/panels.hpp"

namespace spmm::plan {

/// A row panel, or a piece of one, and who computes it.
struct SharedPanel {
  Panel panel{};
  std::uint32_t device = 0;  ///< 0 .. num_devices - 1

  friend bool operator==(const SharedPanel&, const SharedPanel&) = default;
};

struct ShareRules {
  std::uint32_t num_devices = 1;
  bool by_rows = false;            ///< dense kernels: a row costs the same whatever pairs it has
  std::uint32_t row_step = 1;      ///< rows of a tile: a panel is divided at multiples of it, from its first row
  bool divides = true;             ///< false: panels are whole tiles of a kernel
  std::uint64_t min_c_blocks = 1;  ///< panels are not divided into pieces of fewer
  std::uint64_t max_c_blocks = ~std::uint64_t{0};  ///< pieces have about as many at most
};

/// Rows of A per tile of the dense kernels, in block rows.
std::uint32_t dense_row_step(std::uint32_t m);

/// Cuts panels, the fewer there are still to come, into the finer pieces, and gives each piece to the device that has
/// the least work so far. Work is counted in exact pairs, or in rows. A panel has a piece, or several, for each device:
/// pieces whose records follow each other are then computed at the same time, and wait little for each other's counts.
/// Values: in the order of the rows. Columns of a row in several panels stay in their order. Borders are at runs of
///         `pairs`.
std::vector<SharedPanel> share_panels(const std::vector<Panel>& panels, const RowPairs& pairs, const ShareRules& rules);

}  // namespace spmm::plan
