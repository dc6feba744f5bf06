// The two operands of a product, as sources of records.
#pragma once

#include <cstdint>

#include "spmm/stream.hpp"

namespace spmm {

/// Both must outlive it.
struct Inputs {
  const Source& a;
  const Source& b;
  std::uint32_t num_rows = 0;  ///< block rows in which A has blocks at most; 0 = all

  [[nodiscard]] std::uint32_t m() const { return a.header().m; }
};

}  // namespace spmm
