// Block rows of A that are multiplied while B is read past them: sums of a row of C lie in memory (a sparse
// accumulator), and no part of B is kept.
#pragma once

#include <cstdint>
#include <span>

#include "base/run/run.hpp"
#include "engine/slabs/row_groups.hpp"
#include "engine/slabs/sorted_matrix.hpp"
#include "plan/memory/streamed_rows.hpp"
#include "spmm/stream.hpp"

namespace spmm::slabs {

/// A block row of A.
struct StreamedRow {
  RecordRange records;
  std::uint64_t pairs = 0;  ///< at most
};

/// Both operands sorted by rows.
struct StreamedOperands {
  const SortedMatrix& a;
  const SortedMatrix& b;
  const RowGroups& groups;  ///< of B
};

/// Multiplies block rows of A on the host; records reach the sink in order and are released.
/// Values: rows ascending. Memory: as planned. Errors: IoError, Interrupted, what the sink throws.
ProductStats multiply_streamed_rows(const StreamedOperands& operands, std::span<const StreamedRow> rows,
                                    const plan::StreamedRowsPlan& plan, Sink& sink, const Run& run);

}  // namespace spmm::slabs
