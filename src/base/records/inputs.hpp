// The two operands of a product, as sources of records.
#pragma once

#include <cstdint>
#include <memory>

#include "spmm/stream.hpp"

namespace spmm {

/// Both must outlive it, unless it owns them.
struct Inputs {
  const Source& a;
  const Source& b;
  std::uint32_t num_rows = 0;  ///< block rows in which A has blocks at most; 0 = all
  std::shared_ptr<const Source> own_a{};
  std::shared_ptr<const Source> own_b{};

  [[nodiscard]] std::uint32_t m() const { return a.header().m; }
};

}  // namespace spmm
