// Options and lines of text that several programs have.
#include "tools/common/options.hpp"

#include <charconv>

#include "base/run/parallel.hpp"
#include "base/text.hpp"
#include "cli/program.hpp"
#include "spmm/error.hpp"

namespace spmm::tools {

std::optional<double> parse_number(std::string_view word) {
  double value = 0;
  const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || stop != word.data() + word.size()) return std::nullopt;
  return value;
}

std::vector<std::string> split(std::string_view list, char separator, const std::string& where) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0, end = 0; end != list.npos; begin = end + 1) {
    end = list.find(separator, begin);
    parts.emplace_back(list.substr(begin, end - begin));
    if (parts.back().empty()) throw UsageError(where, text("\"", list, "\" has an empty part"), "see --help");
  }
  return parts;
}

std::vector<std::string> option_list(const cli::ParsedOptions& parsed, const std::string& option) {
  const auto found = cli::option_text(parsed, option);
  return found ? split(found->value, ',', found->where) : std::vector<std::string>();
}

std::optional<double> option_number(const cli::ParsedOptions& parsed, const std::string& option, double low,
                                    double high) {
  const auto found = cli::option_text(parsed, option);
  if (!found) return std::nullopt;
  const auto value = parse_number(found->value);
  if (value && *value >= low && *value <= high) return value;
  throw UsageError(
      found->where, "\"" + found->value + "\" is no such number",
      text("give a number from ", low, high < std::numeric_limits<double>::max() ? text(" to ", high) : " up"));
}

unsigned option_threads(const cli::ParsedOptions& parsed) {
  const unsigned given = cli::threads_option(parsed);
  return given != 0 ? given : usable_cores();
}

}  // namespace spmm::tools
