// What the library says about its options reaches a user of the programs in the words of the command line.
#include "cli/exit_codes.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "support/catch.hpp"
#include "test_paths.hpp"

namespace {

namespace fs = std::filesystem;
using spmm::cli::command_line_words;

/// String literals of the library: everything below src but what only programs use.
std::vector<std::string> literals_of_library() {
  static const std::regex kLiteral(R"re("(\\.|[^"\\])*")re");
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(SPMM_SOURCE_DIR) / "src")) {
    const std::string path = entry.path().lexically_relative(SPMM_SOURCE_DIR).generic_string();
    const std::string end = entry.path().extension().string();
    if ((end != ".cpp" && end != ".hpp") || path.starts_with("src/cli/") || path.starts_with("src/mpi/")) continue;
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);) {
      if (line.find('"') == std::string::npos || line.find_first_not_of(' ') == line.find("//")) continue;
      for (std::sregex_iterator at(line.begin(), line.end(), kLiteral), none; at != none; ++at) {
        found.push_back(at->str());
      }
    }
  }
  return found;
}

}  // namespace

TEST_CASE("options are called as they are typed") {
  CHECK(command_line_words("raise EngineOptions::memory_limit_bytes, or run") == "raise --memory-limit, or run");
  CHECK(command_line_words("EngineOptions::devices: is given together with EngineOptions::device; leave") ==
        "--devices: is given together with --device; leave");
  CHECK(command_line_words("use ProductOptions::backend = cpu") == "use --backend cpu");
  CHECK(command_line_words("leave ProductOptions::backend out") == "leave --backend out");
  CHECK(command_line_words("ProductOptions::kernel host-driven") == "--kernel host-driven");
  CHECK(command_line_words("or ProductOptions::force = true") == "or --force");
  CHECK(command_line_words("with ProductOptions::on_saturation = report") == "with --on-saturation report");
  CHECK(command_line_words("") == "");
  CHECK(command_line_words("a.bin: no option: at all") == "a.bin: no option: at all");
}

TEST_CASE("no message of the library names an option of the command line, and each field has one") {
  static const std::regex kTyped(R"((^|[ "(])--[a-z]+)");
  static const std::regex kField(R"((Engine|Product)Options::[a-z_]+( = (cpu|true))?)");
  const std::vector<std::string> literals = literals_of_library();
  CHECK(literals.size() > 500);
  std::set<std::string> fields;
  for (const std::string& literal : literals) {
    INFO(literal);
    CHECK_FALSE(std::regex_search(literal, kTyped));
    for (std::sregex_iterator at(literal.begin(), literal.end(), kField), none; at != none; ++at) {
      fields.insert(at->str());
    }
  }
  CHECK(fields.size() > 5);
  for (const std::string& field : fields) {
    INFO(field);
    CHECK(command_line_words(field).starts_with("--"));
  }
}
