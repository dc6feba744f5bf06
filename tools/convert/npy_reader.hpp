// Reads dense matrices from .npy files.
#pragma once

#include <filesystem>
#include <memory>

#include "tools/convert/matrix_entries.hpp"

namespace spmm::tools {

/// Two dimensions, C or Fortran order. Errors: InputError, FormatError, IoError.
std::unique_ptr<EntryReader> open_npy(const std::filesystem::path& path);

}  // namespace spmm::tools
