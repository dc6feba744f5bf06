// Options that programs with named cases share, and their folder for matrices.
#include "tools/bench/options.hpp"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <system_error>

#include "base/text.hpp"
#include "cli/options/table.hpp"
#include "spmm/error.hpp"
#include "tools/bench/process.hpp"

namespace spmm::tools {

namespace fs = std::filesystem;

std::vector<std::string> option_names(const cli::ParsedOptions& parsed, const std::string& option) {
  std::vector<std::string> names;
  const auto found = cli::option_text(parsed, option);
  if (!found) return names;
  std::istringstream list(found->value + ",");
  for (std::string name; std::getline(list, name, ',');) {
    if (name.empty()) throw UsageError(found->where, "holds an empty name", "write names with one comma between");
    names.push_back(name);
  }
  return names;
}

std::optional<double> option_number(const cli::ParsedOptions& parsed, const std::string& option, double low) {
  const auto found = cli::option_text(parsed, option);
  if (!found) return std::nullopt;
  double value = 0;
  const char* const end = found->value.data() + found->value.size();
  const auto [stop, error] = std::from_chars(found->value.data(), end, value);
  if (error != std::errc{} || stop != end || !std::isfinite(value) || value < low) {
    throw UsageError(found->where, "\"" + found->value + "\" is no such number",
                     text("give a number from ", low, " up"));
  }
  return value;
}

fs::path suites_path(const cli::ParsedOptions& parsed) {
  if (const auto given = cli::option_text(parsed, "suites")) return given->value;
  fs::path usual = fs::path("data") / "suites.json";
  if (fs::exists(usual)) return usual;
  fs::path above = program_folder().parent_path().parent_path() / usual;
  if (fs::exists(above)) return above;
  throw UsageError("--suites", "data/suites.json is neither here nor above the program", "name the file with --suites");
}

WorkFolder::WorkFolder(const std::optional<cli::OptionText>& given) : temporary_(!given) {
  std::error_code failed;
  if (given) {
    path_ = given->value;
    fs::create_directories(path_, failed);
  } else {  // in a folder that others may write to: of a new name, for this user alone
    std::string name = (fs::temp_directory_path() / "spmm-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) failed.assign(errno, std::generic_category());
    path_ = name;
  }
  if (failed) throw OutputError(path_.string(), failed.message(), "name a folder that can be made with --work");
}

WorkFolder::~WorkFolder() {
  std::error_code ignored;
  if (temporary_) fs::remove_all(path_, ignored);
}

}  // namespace spmm::tools
