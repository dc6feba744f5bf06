// How long a product is predicted to take, said before it starts.
#pragma once

#include <filesystem>
#include <string>

#include "spmm/options.hpp"

namespace spmm::cli {

/// "70 s", "3.5 minutes", "20 hours", "8310 days".
std::string rough_time(double seconds);

/// Warns of a product that is predicted to take more than a minute, also with -q. Inputs that cannot be read are left
/// to the product, which reports what is wrong. Values: num_ranks = processes that share the product evenly, each with
/// the threads of `options`. Errors: UsageError for more than a day without Options::force.
void check_run_length(const std::string& program, const std::filesystem::path& a, const std::filesystem::path& b,
                      const Options& options, int num_ranks = 1);

}  // namespace spmm::cli
