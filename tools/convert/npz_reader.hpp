// Reads sparse matrices that scipy.sparse.save_npz has written.
#pragma once

#include <filesystem>
#include <memory>

#include "tools/convert/matrix_entries.hpp"

namespace spmm::tools {

/// csr, csc, coo, and bsr, which takes 8 bytes of memory for each block on top. Errors: InputError, FormatError,
/// IoError, OutOfMemory, DeviceError (built without libzip).
std::unique_ptr<EntryReader> open_npz(const std::filesystem::path& path);

}  // namespace spmm::tools
