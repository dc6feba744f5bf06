// Reads Matrix Market files.
#pragma once

#include <filesystem>
#include <memory>

#include "tools/convert/blocks/entries.hpp"

namespace spmm::tools {

/// Coordinate and array; integer, real and pattern; general and symmetric. Read in pieces of 8 MB; the banner and the
/// sizes are read at once. Source: R. Boisvert, R. Pozo, K. Remington, The Matrix Market Exchange Formats (NISTIR
/// 5935). Errors: InputError, FormatError with the line, IoError.
std::unique_ptr<EntryReader> open_mtx(const std::filesystem::path& path);

}  // namespace spmm::tools
