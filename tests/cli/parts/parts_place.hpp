// Runs the programs that write and read results in parts, in a Workplace.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/exit_codes.hpp"
#include "cli/workplace.hpp"
#include "support/catch.hpp"
#include "support/json_schema.hpp"
#include "test_paths.hpp"

namespace spmm::test {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

inline ProcessResult tool(const std::string& name, const Words& arguments) {
  Words words = {std::string(SPMM_BIN_DIR) + "/" + name};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run_process(words);
}

/// Runs spmm on the CPU and expects success.
inline void multiply(Words arguments) {
  arguments.insert(arguments.begin(), {"-q", "--backend", "cpu"});
  const ProcessResult result = spmm_command(arguments);
  INFO(result.err);
  REQUIRE(result.exit_code == cli::kOk);
}

inline Json index_of(const std::filesystem::path& folder) {
  return parse_report("parts-index", bytes_of(folder / "index.json"));
}

}  // namespace spmm::test
