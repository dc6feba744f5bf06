// Makes one file of a result in parts.
#pragma once

#include <cstdint>
#include <filesystem>

#include "spmm/io.hpp"

namespace spmm::tools {

/// What was read.
struct CatResult {
  std::uint64_t num_parts = 0;
  std::uint64_t num_blocks = 0;
};

/// Reads all parts of a folder in order, checks their checksums and that their blocks ascend within the block rows that
/// the index gives them, and writes one result file; an empty `out` only
/// checks. The file appears when everything is right. Memory: a few MB. Errors: InputError, FormatError (index, a part
/// or its checksum), OutOfMemory (more blocks than one file holds), UsageError (`out` would change the folder),
/// OutputError, IoError, Interrupted.
CatResult cat_parts(const std::filesystem::path& folder, const std::filesystem::path& out,
                    const FileSinkOptions& options);

}  // namespace spmm::tools
