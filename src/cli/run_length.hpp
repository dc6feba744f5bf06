// How long a product is predicted to take and how large its result is, said before it starts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "spmm/options.hpp"

namespace spmm::cli {

/// What is free for this user where an output would be written; nothing for devices such as /dev/null, and where it
/// is not known. What an existing output takes does not count: it stays until the new one is complete.
std::optional<std::uint64_t> free_bytes_for(const std::filesystem::path& out);

/// For a file whose length is known. Errors: OutputError if it does not fit.
void check_space_for_file(const std::filesystem::path& out, std::uint64_t bytes);

/// "70 s", "3.5 minutes", "20 hours", "8310 days".
std::string rough_time(double seconds);

/// Looks at a product before any work. Warns, also with -q, of one that is predicted to take more than a minute, and of
/// a result that does not fit the disk, with the scratch file of a product out of core next to it. If the most that
/// headers allow is neither, that is all; else a sample of both operands' indices decides. Inputs that cannot be read
/// are left to the product, which reports what is wrong.
/// Values: num_ranks = processes that share the product evenly, each with the threads of `options`.
/// Errors: UsageError for more than a day without Options::force; OutputError for too little room if is_strict.
void check_expectations(const std::string& program, const std::filesystem::path& a, const std::filesystem::path& b,
                        const std::filesystem::path& out, const Options& options, bool is_strict, int num_ranks = 1);

}  // namespace spmm::cli
