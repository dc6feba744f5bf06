// Whether the disk of an output has room for what is to be written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "spmm/types.hpp"

namespace spmm::cli {

/// What is free for this user where an output would be written; nothing for devices such as /dev/null, and where it
/// is not known. What an existing output takes does not count: it stays until the new one is complete.
std::optional<std::uint64_t> free_bytes_for(const std::filesystem::path& out);

/// Values: expected_bytes = of the file. "" if it fits.
std::string space_problem(std::uint64_t expected_bytes, std::uint64_t free_bytes, const std::string& folder);

/// Looks at the result of a product before any work, as large as it is for evenly spread blocks: warns where it does
/// not fit. The scratch file of a product out of core lies next to it: scratch_bytes() says how long it is, and is
/// asked only if that matters; it may be empty. Inputs that cannot be read are left to the product, which says what is
/// wrong. Errors: OutputError if it does not fit and is_strict.
void check_space_for_product(const std::string& program, const std::filesystem::path& a, const std::filesystem::path& b,
                             const std::filesystem::path& out, RowRange rows, bool is_strict,
                             const std::function<std::uint64_t()>& scratch_bytes = {});

/// For a file whose length is known. Errors: OutputError if it does not fit.
void check_space_for_file(const std::filesystem::path& out, std::uint64_t bytes);

}  // namespace spmm::cli
