// Environment variables of the programs.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace spmm::cli {

/// The variables that some program of the project reads, or its tests and scripts do, without "SPMM_".
/// A test compares it with the options of every program.
const std::vector<std::string>& variable_names();

/// A line for each name that starts with SPMM_ but is not known, and is nearly that of an option of this program.
/// Shapes: environment NAME=VALUE, options without dashes in front.
std::vector<std::string> variable_warnings(const std::vector<std::string>& environment,
                                           const std::vector<std::string>& options);

}  // namespace spmm::cli
