// The ranges of block rows that a sink asks for, cut by the exact pairs of each row.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/operands/prepared.hpp"
#include "spmm/stream.hpp"

namespace spmm::cpu {

/// Tells the sink its ranges, where it wants several. Returns the first row of each (a row index of A), and the end.
/// Shapes: [num_ranges + 1].
std::vector<std::uint32_t> cut_ranges(const Prepared& product, Sink& sink);

}  // namespace spmm::cpu
