// Sizes of the panels in which the dense kernel computes a product: pure functions.
#pragma once

#include <cstdint>

namespace spmm::plan {

/// A product in blocks, empty lines left out: block rows of A with pairs, block rows of B, block columns of B.
struct DenseExtent {
  std::uint32_t m = 0;
  std::uint64_t rows = 0;
  std::uint64_t inner = 0;
  std::uint64_t cols = 0;
};

/// What one worker holds, in blocks.
/// Shapes: doubles A [rows, inner], B [inner, cols], C [rows, cols]; saturated result [rows, result_cols], which is
/// every column of the product unless rows = 1, because records leave row by row.
struct DensePanels {
  std::uint32_t rows = 1;
  std::uint32_t inner = 1;
  std::uint32_t cols = 1;
  std::uint32_t result_cols = 1;

  [[nodiscard]] std::uint64_t bytes(std::uint32_t m) const;
  friend bool operator==(const DensePanels&, const DensePanels&) = default;
};

/// Panels as large as they are useful, cut until they take at most budget_bytes (or are single blocks).
DensePanels choose_dense_panels(const DenseExtent& extent, std::uint64_t budget_bytes);

/// The same with fewer rows if that gives each of num_threads workers something to do.
DensePanels share_dense_panels(const DenseExtent& extent, std::uint64_t budget_bytes, unsigned num_threads);

}  // namespace spmm::plan
