// What every program says about itself: help and version.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cli/options/table.hpp"

namespace spmm::cli {

/// Adds --version and --help.
void add_common_options(OptionTable& options, const std::string& group = "");

/// What --help or --version asks for; nothing if none is given.
/// Values: notes = what follows the options in --help.
std::optional<std::string> requested_text(const ParsedOptions& parsed, const OptionTable& options,
                                          const std::string& notes);

/// A program with options, for its main().
struct Program {
  const char* name;
  OptionTable (*options)();
  const char* notes;  ///< what follows the options in --help
};

/// Runs body with the options as typed, or prints what requested_text() gives. Signals ask for a clean end; failures
/// become messages. Returns the exit code.
int run_program(const Program& program, int argc, const char* const* argv,
                const std::function<int(const ParsedOptions& parsed)>& body);

}  // namespace spmm::cli
