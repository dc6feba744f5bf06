// Both operands in memory, sorted, packed, linked and counted: where every threaded kernel starts.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/memory/aligned_array.hpp"
#include "base/records/head.hpp"
#include "base/run/run.hpp"
#include "cpu/operands/operand.hpp"
#include "cpu/simd/isa.hpp"
#include "spmm/stream.hpp"

namespace spmm::cpu {

struct Prepared {
  PackedShape shape;
  PackedOperand a;  ///< columns replaced by link_rows
  PackedOperand b;
  AlignedArray<std::uint64_t> row_pairs;  ///< [a.num_rows()]
  std::uint64_t num_pairs = 0;
  std::uint32_t blocks_per_side = 0;

  /// The most C blocks of a row with these pairs.
  [[nodiscard]] std::uint64_t most_c_blocks(std::uint64_t pairs, const Selection& selection) const {
    const std::uint64_t most = std::min<std::uint64_t>(pairs, blocks_per_side);
    return selection.keep == 0 ? most : std::min(most, std::uint64_t{selection.keep} * shape.m);
  }

  /// The most pairs of a C block of which no sum can reach kMaxVal.
  [[nodiscard]] std::uint64_t sure_pairs() const { return sure_terms(a.seen_bits, b.seen_bits) / shape.m; }
};

/// Reads and builds both operands. Errors: FormatError, Interrupted, what the sources throw.
Prepared prepare(const Source& a, const Source& b, const PackedShape& shape, const Run& run);

}  // namespace spmm::cpu
