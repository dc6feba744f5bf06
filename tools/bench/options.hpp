// Words of command lines that programs with named cases share, and their folder for matrices.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/options/table.hpp"
#include "cli/program.hpp"

namespace spmm::tools {

/// "a,b" -> a, b; nothing if the option is not given. Errors: UsageError (an empty name).
std::vector<std::string> option_names(const cli::ParsedOptions& parsed, const std::string& option);

/// A number from `low` up; nothing if the option is not given. Errors: UsageError.
std::optional<double> option_number(const cli::ParsedOptions& parsed, const std::string& option, double low);

/// Where the suites are: as asked for by --suites, else below the working folder, else below the root of the build's
/// tree. Errors: UsageError.
std::filesystem::path suites_path(const cli::ParsedOptions& parsed);

/// The work folder; a temporary one is removed with everything in it. Errors: OutputError.
class WorkFolder {
 public:
  explicit WorkFolder(const std::optional<cli::OptionText>& given);
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  bool temporary_;
};

}  // namespace spmm::tools
