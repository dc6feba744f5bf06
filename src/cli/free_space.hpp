// Whether the disk of an output has room for what is to be written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace spmm::cli {

/// What is free for this user where an output would be written; nothing for devices such as /dev/null, and where it
/// is not known. What an existing output takes does not count: it stays until the new one is complete.
std::optional<std::uint64_t> free_bytes_for(const std::filesystem::path& out);

/// For a file whose length is known. Errors: OutputError if it does not fit.
void check_space_for_file(const std::filesystem::path& out, std::uint64_t bytes);

}  // namespace spmm::cli
