// A matrix as it is multiplied: some of its block rows, or its transpose.
#pragma once

#include <cstdint>
#include <memory>

#include "base/run/run.hpp"
#include "spmm/stream.hpp"
#include "spmm/types.hpp"

namespace spmm {

/// A range of block rows with its real end. Values: num_rows = block rows of the product; those of arrays end with A,
/// not with the padding. Errors: UsageError where the product lacks some of them.
RowRange checked_rows(RowRange rows, std::uint32_t num_rows);

namespace io {

/// The records of `whole` that lie in these block rows, in the same order, each transposed in the caller's buffer once
/// it is read: no separate pass over the data. Block rows are those of the transpose. Messages name records and blocks
/// as they are in `whole`, which must outlive the source.
/// Values: rows with their real end (checked_rows()).
/// Memory: with fewer rows than all, `whole` is read once to count, and 4 bytes are kept for each 16 KB of it, 256 KB
/// at most. Where the records of the rows lie together, as in a file sorted by rows, only they are read from then on,
/// and nothing is copied. Otherwise read() reads on from the nearest known place; it takes a buffer of 16 KB, or
/// 1 / 65,536 of `whole` if that is more. Errors: FormatError (an index out of range), Interrupted; of records of other
/// rows, only block indices are checked.
std::unique_ptr<Source> make_factor_source(const Source& whole, bool is_transposed, RowRange rows, const Run& run);

}  // namespace io
}  // namespace spmm
