// What every program says about itself: help, version, manual page and completions, all from one table of options.
#pragma once

#include <cxxopts.hpp>
#include <optional>
#include <string>
#include <vector>

namespace spmm::cli {

/// Adds --version, --help and --generate, which --help does not show.
void add_common_options(cxxopts::Options& options);

/// What --help, --version or --generate asks for; nothing where none is given.
/// Values: notes = what follows the options in --help; groups = those of the options that are shown.
/// Errors: UsageError (what --generate is to make is not known).
std::optional<std::string> requested_text(const cxxopts::ParseResult& parsed, const cxxopts::Options& options,
                                          const std::string& notes, const std::vector<std::string>& groups = {""});

}  // namespace spmm::cli
