// Writes a list of elements as an input matrix.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "spmm/types.hpp"
#include "tools/convert/matrix_entries.hpp"

namespace spmm::tools {

/// Writes the blocks that hold an element, sorted by (i, j); returns the header. Shapes: entries sorted by (row,
/// column), each place once, inside n x n. Values: 1 to 65535. Memory: 4 MB, and 8 bytes for each element of the
/// fullest block row. Errors: OutOfMemory (more than 2^32 - 1 blocks), OutputError, IoError, Interrupted.
MatrixHeader write_blocks(const std::filesystem::path& path, const std::vector<MatrixEntry>& entries, std::uint32_t n,
                          std::uint32_t m);

}  // namespace spmm::tools
