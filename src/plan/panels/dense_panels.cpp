#include "plan/panels/dense_panels.hpp"

#include <algorithm>

namespace spmm::plan {
namespace {

// Elements; larger ones do not make DGEMM faster (1,024 x 1,024 x 1,024: 26 G multiply-adds/s on one core of a Zen 4,
// 128 x 256 x 1,024: 26), smaller ones let a cancelled run end sooner.
constexpr std::uint32_t kRows = 512;
constexpr std::uint32_t kInner = 256;
constexpr std::uint32_t kCols = 1024;
constexpr std::uint32_t kFewestRows = 128;     // fewer are slower: 64 rows 25, and B is expanded for each panel of rows
constexpr std::uint64_t kPanelsPerThread = 4;  // the last ones level out what the others differ

std::uint32_t in_blocks(std::uint32_t elements, std::uint32_t m, std::uint64_t most) {
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(most, 1, std::max(1u, elements / m)));
}

/// Halves the larger one.
void halve(std::uint32_t& x, std::uint32_t& y) {
  std::uint32_t& larger = x >= y ? x : y;
  larger = (larger + 1) / 2;
}

std::uint64_t product(std::uint32_t x, std::uint32_t y) {
  return std::uint64_t{x} * y;
}

}  // namespace

std::uint64_t DensePanels::bytes(std::uint32_t m) const {
  const std::uint64_t doubles = product(rows, inner) + product(inner, cols) + product(rows, cols);
  return (doubles * sizeof(double) + product(rows, result_cols) * sizeof(std::uint32_t)) * m * m +
         rows * sizeof(std::uint32_t);  // a cursor per block row
}

DensePanels choose_dense_panels(const DenseExtent& extent, std::uint64_t budget_bytes) {
  DensePanels panels{.rows = in_blocks(kRows, extent.m, extent.rows),
                     .inner = in_blocks(kInner, extent.m, extent.inner),
                     .cols = in_blocks(kCols, extent.m, extent.cols),
                     .result_cols = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, extent.cols))};
  while (panels.bytes(extent.m) > budget_bytes) {
    const std::uint64_t of_a = product(panels.rows, panels.inner);
    const std::uint64_t of_b = product(panels.inner, panels.cols);
    const std::uint64_t of_c = product(panels.rows, panels.cols);
    const std::uint64_t of_result = product(panels.rows, panels.result_cols) / 2;  // half as large elements
    const std::uint64_t largest = std::max({of_a, of_b, of_c, of_result});
    if (largest <= 1 && panels.result_cols == 1) break;
    if (of_result == largest && panels.rows > 1) {
      panels.rows = (panels.rows + 1) / 2;
    } else if (of_result == largest && panels.result_cols > 1) {
      panels.result_cols = (panels.result_cols + 1) / 2;
      panels.cols = std::min(panels.cols, panels.result_cols);
    } else if (of_a == largest) {
      halve(panels.rows, panels.inner);
    } else if (of_b == largest) {
      halve(panels.inner, panels.cols);
    } else {
      halve(panels.rows, panels.cols);
    }
  }
  return panels;
}

DensePanels share_dense_panels(const DenseExtent& extent, std::uint64_t budget_bytes, unsigned num_threads) {
  DensePanels panels = choose_dense_panels(extent, budget_bytes);
  const std::uint64_t share = extent.rows / (num_threads * kPanelsPerThread) + 1;
  const std::uint64_t fewest = std::max(1u, kFewestRows / extent.m);
  panels.rows = static_cast<std::uint32_t>(std::min<std::uint64_t>(panels.rows, std::max(share, fewest)));
  return panels;
}

}  // namespace spmm::plan
