// Which elements of a result are kept. Plain data: device code includes it.
#pragma once

#include <cstdint>

namespace spmm {

/// Elements of C that are kept; all others are zero, and blocks without elements are not written. In this order:
/// triangle, diagonal, at_least, keep. Rows and columns are those of the whole result, also where some rows alone are
/// computed.
struct Selection {
  bool upper_triangle = false;  ///< elements with column >= row; pairs of blocks below the diagonal are not multiplied
  bool no_diagonal = false;     ///< elements (r, r) are zero
  std::uint32_t at_least = 0;   ///< smaller elements are zero
  std::uint32_t keep = 0;       ///< the largest `keep` elements of each row, ties: the lower column; 0: all

  /// Whether nothing is dropped.
  [[nodiscard]] constexpr bool is_all() const { return !upper_triangle && !no_diagonal && at_least <= 1 && keep == 0; }

  friend bool operator==(const Selection&, const Selection&) = default;
};

}  // namespace spmm
