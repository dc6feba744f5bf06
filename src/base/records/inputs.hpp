// The two operands of a product, as sources of records.
#pragma once

#include <cstdint>

#include "spmm/stream.hpp"

namespace spmm {

/// Both must outlive it.
struct Inputs {
  const Source& a;
  const Source& b;

  [[nodiscard]] std::uint32_t m() const { return a.header().m; }
  [[nodiscard]] bool are_in_memory() const { return a.is_in_memory() && b.is_in_memory(); }
};

}  // namespace spmm
