// Writes matrices as Matrix Market files.
#pragma once

#include <filesystem>

#include "tools/convert/blocks/walk.hpp"

namespace spmm::tools {

/// Coordinates, general, block by block; integer, or real where a factor is given. Reads the blocks twice: the file
/// begins with the number of elements. Returns that number. Memory: 4 MB. Errors: as BlockWalk; OutputError.
std::uint64_t write_mtx(const std::filesystem::path& path, BlockWalk& walk, double scale);

}  // namespace spmm::tools
