// Writes matrices as dense .npy files.
#pragma once

#include <filesystem>

#include "tools/convert/array_elements.hpp"
#include "tools/convert/block_walk.hpp"

namespace spmm::tools {

/// C order. Block rows without blocks are holes in the file where the file system knows them. Memory: the rows of one
/// block row. Errors: as BlockWalk; OutOfMemory (a block row beyond 4 GB), OutputError, IoError.
void write_npy(const std::filesystem::path& path, BlockWalk& walk, const ArrayElements& elements);

}  // namespace spmm::tools
