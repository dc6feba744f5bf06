// The command line of spmm: arguments and environment -> CliOptions.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.hpp"
#include "cli/progress_bar.hpp"
#include "spmm/multiply.hpp"

namespace spmm::cli {

struct CliOptions {
  std::filesystem::path a, b, out;
  Options run;
  std::string report;         ///< path of the JSON report; "" = none, "-" = standard output
  std::string trace;          ///< path of the trace; "" = none
  bool plan = false;          ///< print the plan only
  bool strict_space = false;  ///< an output that is not expected to fit its disk is refused
  bool quiet = false;
  bool verbose = false;
  std::optional<std::string> answer{};  ///< to --help and the like: print it, nothing else
  ProgressMode progress = ProgressMode::automatic;
};

/// Reads SPMM_* variables, then the arguments, which win.
/// Errors: UsageError names the option, or the variable, what it said and what it takes.
/// Values: notes() = what --help says after the options, of a program that takes the same ones.
CliOptions parse_options(int argc, const char* const* argv, const std::string& program = "spmm",
                         std::string (*notes)() = nullptr, const std::vector<SubcommandName>& subcommands = {});

/// Sets an option of a product by its name, which is the same on the command line and in a list of jobs; false if there
/// is none of that name. Errors: UsageError that names `where`.
bool set_product_option(ProductOptions& product, std::string_view key, const std::string& value,
                        const std::string& where);

/// --triangle, --no-diagonal, --at-least, --keep: the same in all programs.
void add_selection_options(OptionTable& options, const std::string& group);

/// Sets what was typed of these options, but for --backend. Errors: UsageError.
void set_product_options(ProductOptions& product, const ParsedOptions& parsed);

/// --memory-limit; 0 if it is not given. Errors: UsageError, also for 0 bytes.
std::uint64_t memory_limit_option(const ParsedOptions& parsed);

/// --progress auto|always|never. Errors: UsageError.
ProgressMode progress_option(const ParsedOptions& parsed);

/// What a program without CUDA says if there are GPUs that it may use, else "".
std::string unused_gpus_warning(bool has_cuda, std::size_t num_gpus);

/// Examples, kernels, environment, exit codes.
std::string spmm_notes();

}  // namespace spmm::cli
