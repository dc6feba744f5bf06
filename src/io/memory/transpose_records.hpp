// Transposes packed input records where they lie.
#pragma once

#include <cstddef>
#include <cstdint>

namespace spmm::io {

/// Makes {i, j, block} of each record {j, i, transpose of the block}.
/// Shapes: records [count * input_record_bytes(m)], no alignment needed. Values: 1 <= m <= 64.
void transpose_records(std::byte* records, std::uint64_t count, std::uint32_t m);

}  // namespace spmm::io
