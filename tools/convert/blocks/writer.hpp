// Writes a list of elements as an input matrix.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "spmm/types.hpp"
#include "tools/convert/blocks/element_rule.hpp"
#include "tools/convert/blocks/entries.hpp"
#include "tools/convert/blocks/walk.hpp"

namespace spmm::tools {

/// Writes the blocks that hold an element, sorted by (i, j); returns the header. Shapes: entries sorted by (row,
/// column), each place once, inside n x n. Values: 1 to 65535. Memory: 4 MB, and 8 bytes for each element of the
/// fullest block row. Errors: OutOfMemory (more than 2^32 - 1 blocks), OutputError, IoError, Interrupted.
MatrixHeader write_blocks(const std::filesystem::path& path, const std::vector<MatrixEntry>& entries, std::uint32_t n,
                          std::uint32_t m);

/// Writes the blocks of another file as an input matrix, those without an element other than zero left out; counts what
/// the rule has changed. Shapes: walk = the whole matrix. Memory: 4 MB. Errors: as BlockWalk and write_blocks();
/// FormatError (an element breaks the rule).
MatrixHeader rewrite_blocks(const std::filesystem::path& path, BlockWalk& walk, const ElementRule& rule,
                            ChangedElements& changed);

}  // namespace spmm::tools
