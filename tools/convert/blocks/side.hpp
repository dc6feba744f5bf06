// Which side of blocks stores a matrix in the fewest bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/convert/blocks/entries.hpp"

namespace spmm::tools {

/// Sides that --block auto tries.
inline constexpr std::uint32_t kTriedSides[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 32, 64};

/// Number of blocks of side m that hold an element. Shapes: entries sorted by (row, column), each place once.
std::uint64_t count_blocks(const std::vector<MatrixEntry>& entries, std::uint32_t m);

/// The tried side whose file is the shortest, the larger one of two; only sides that divide n, unless n is 0.
/// Threads: num_threads. Errors: UsageError if no file can have so many blocks.
std::uint32_t choose_block_side(const std::vector<MatrixEntry>& entries, std::uint32_t n, unsigned num_threads);

}  // namespace spmm::tools
