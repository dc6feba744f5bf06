// Names of option fields in messages of the library, as names of options.
#include "cli/options/words.hpp"

#include <algorithm>
#include <utility>

namespace spmm::cli {
namespace {

/// Fields that have another name on the command line.
constexpr std::pair<std::string_view, std::string_view> kRenamed[] = {
    {"num_threads", "threads"},  {"max_threads", "threads"},     {"memory_limit_bytes", "memory-limit"},
    {"verify_blocks", "verify"}, {"verify_full", "verify full"}, {"proof_key", "verify-seed"}};

}  // namespace

std::string command_line_words(std::string_view message) {
  std::string out;
  while (true) {
    const std::size_t begin = std::min(message.find("EngineOptions::"), message.find("ProductOptions::"));
    if (begin == std::string_view::npos) return out.append(message);
    const std::size_t field = message.find("::", begin) + 2;
    const std::size_t end = std::min(message.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", field), message.size());
    std::string name(message.substr(field, end - field));
    for (const auto& [library, typed] : kRenamed) {
      if (name == library) name = typed;
    }
    std::replace(name.begin(), name.end(), '_', '-');
    out.append(message.substr(0, begin)).append("--").append(name);
    message.remove_prefix(end);
    if (message.starts_with(" = true")) {  // --force
      message.remove_prefix(7);
    } else if (message.starts_with(" = ")) {  // --backend cpu
      message.remove_prefix(2);
    }
  }
}

}  // namespace spmm::cli
