// The command line of spmm: arguments and environment -> CliOptions.
#pragma once

#include <filesystem>
#include <string>

#include "cli/progress_bar.hpp"
#include "spmm/multiply.hpp"

namespace spmm::cli {

struct CliOptions {
  std::filesystem::path a, b, out;
  Options run;
  std::string report;  ///< path of the JSON report; "" = none, "-" = standard output
  std::string trace;   ///< path of the trace; "" = none
  bool plan = false;   ///< print the plan only
  bool quiet = false;
  bool verbose = false;
  bool help = false;
  bool version = false;
  ProgressMode progress = ProgressMode::automatic;
};

/// Reads SPMM_* variables, then the arguments, which win.
/// Errors: UsageError names the option, or the variable, what it said and what it takes.
CliOptions parse_options(int argc, const char* const* argv, const std::string& program = "spmm");

/// Usage and options of a program that takes the same ones.
std::string option_help(const std::string& program);

/// Usage, options, examples, environment, exit codes.
std::string help_text();

}  // namespace spmm::cli
