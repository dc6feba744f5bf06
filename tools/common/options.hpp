// Options and lines of text that several programs have.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.hpp"
#include "report/text.hpp"

namespace spmm::tools {

using cli::format;

/// All of `word` as a number; nothing if it is none.
std::optional<double> parse_number(std::string_view word);

/// Parts of "a,b". Errors: UsageError that names `where` (an empty part).
std::vector<std::string> split(std::string_view list, char separator, const std::string& where);

/// "a,b" -> a, b; nothing if the option is not given. Errors: UsageError (an empty part).
std::vector<std::string> option_list(const cli::ParsedOptions& parsed, const std::string& option);

/// A finite number from `low` to `high`; nothing if the option is not given. Errors: UsageError.
std::optional<double> option_number(const cli::ParsedOptions& parsed, const std::string& option, double low,
                                    double high = std::numeric_limits<double>::max());

/// --threads, else every core that this process may use. Errors: UsageError.
unsigned option_threads(const cli::ParsedOptions& parsed);

}  // namespace spmm::tools
