// Passes over the records of a source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/run/run.hpp"
#include "spmm/stream.hpp"

namespace spmm {

/// Calls body(records, count, first record) for pieces of a source, on all threads of the run. All block indices lie in
/// the matrix.
/// Memory: 1 MB for each thread; with memory_bytes (0 = no limit) all of them together an eighth of it, or a record
/// each. Errors: FormatError (index out of range), Interrupted, what the source and body throw.
void for_pieces(const Source& source, std::uint64_t memory_bytes, const Run& run,
                const std::function<void(const std::byte* records, std::uint64_t count, std::uint64_t first)>& body);

/// Errors: always FormatError, which names the first two records with this block; what the source throws.
[[noreturn]] void throw_stored_twice(const Source& source, BlockIndex block, const Run& run);

}  // namespace spmm
