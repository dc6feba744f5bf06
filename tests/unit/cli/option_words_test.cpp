// What the library says about its options reaches a user of the programs in the words of the command line.
#include "cli/exit_codes.hpp"

#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "support/catch.hpp"
#include "test_paths.hpp"

namespace {

namespace fs = std::filesystem;
using spmm::cli::command_line_words;

/// String literals of the library: everything below src but what only programs use.
std::vector<std::string> literals_of_library() {
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(SPMM_SOURCE_DIR) / "src")) {
    const std::string path = entry.path().lexically_relative(SPMM_SOURCE_DIR).generic_string();
    const std::string extension = entry.path().extension().string();
    if ((extension != ".cpp" && extension != ".hpp") || path.starts_with("src/cli/") || path.starts_with("src/mpi/"))
      continue;
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);) {
      if (line.find('"') == std::string::npos || line.find_first_not_of(' ') == line.find("//")) continue;
      for (std::size_t begin = line.find('"'), end = 0; begin != std::string::npos; begin = line.find('"', end)) {
        for (end = begin + 1; end < line.size() && line[end] != '"'; ++end) end += line[end] == '\\' ? 1 : 0;
        found.push_back(line.substr(begin, ++end - begin));
      }
    }
  }
  return found;
}

/// Whether a literal has a word such as --threads.
bool has_typed_option(const std::string& literal) {
  for (std::size_t at = literal.find("--"); at != std::string::npos; at = literal.find("--", at + 1)) {
    const bool begins_word = at > 0 && std::string(" \"(").find(literal[at - 1]) != std::string::npos;
    if (begins_word && std::islower(literal.c_str()[at + 2]) != 0) return true;
  }
  return false;
}

/// Adds "EngineOptions::devices", "ProductOptions::force = true" and the like.
void add_fields(const std::string& literal, std::set<std::string>& fields) {
  const std::string end_of_type = "Options::";
  for (std::size_t at = literal.find(end_of_type); at != std::string::npos; at = literal.find(end_of_type, at + 1)) {
    const std::size_t begin = literal.find_last_of(" \"(", at) + 1;
    std::size_t end = at + end_of_type.size();
    while (std::islower(literal.c_str()[end]) != 0 || literal[end] == '_') ++end;
    for (const std::string value : {" = cpu", " = true"})
      end += literal.compare(end, value.size(), value) == 0 ? value.size() : 0;
    fields.insert(literal.substr(begin, end - begin));
  }
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
  const std::vector<std::string> literals = literals_of_library();
  CHECK(literals.size() > 500);
  std::set<std::string> fields;
  for (const std::string& literal : literals) {
    INFO(literal);
    CHECK_FALSE(has_typed_option(literal));
    add_fields(literal, fields);
  }
  CHECK(fields.size() > 5);
  for (const std::string& field : fields) {
    INFO(field);
    CHECK(command_line_words(field).starts_with("--"));
  }
}
