// What is said against an output before any work.
#pragma once

#include <cstdint>
#include <filesystem>

#include "spmm/options.hpp"
#include "spmm/types.hpp"

namespace spmm {

/// Errors: UsageError.
void check_output_is_no_input(const std::filesystem::path& input, const std::filesystem::path& out);

/// A folder of parts is replaced as a whole. Errors: UsageError.
void check_output_holds_no_input(const std::filesystem::path& input, const std::filesystem::path& out);

/// How many parts a product with these options has; 0 = one file. Errors: UsageError.
std::uint32_t wanted_parts(const MatrixHeader& a, const MatrixHeader& b, const ProductOptions& options);

}  // namespace spmm
