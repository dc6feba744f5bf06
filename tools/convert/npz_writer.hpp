// Writes matrices as scipy.sparse.save_npz does.
#pragma once

#include <filesystem>

#include "tools/convert/array_elements.hpp"
#include "tools/convert/block_walk.hpp"

namespace spmm::tools {

/// bsr with blocks of side m, or coo where the shape cuts through blocks. Indices have 32 bits where that is enough.
/// Returns the format. The blocks are read once for each array and once more to count them. Memory: a few MB.
/// Errors: as BlockWalk; FormatError, OutputError, IoError, DeviceError (built without libzip).
const char* write_npz(const std::filesystem::path& path, BlockWalk& walk, const ArrayElements& elements, bool deflated);

}  // namespace spmm::tools
