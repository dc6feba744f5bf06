// Help, version, manual page and completions on request.
#include "cli/self_description.hpp"

#include <iostream>

#include "cli/exit_codes.hpp"
#include "cli/options/pages.hpp"
#include "cli/options/table.hpp"
#include "cli/program.hpp"
#include "spmm/error.hpp"
#include "spmm/multiply.hpp"

namespace spmm::cli {

void add_common_options(OptionTable& options) {
  options.add_options()("version", "print version, git revision, CUDA version, architectures and backends")(
      "h,help", "print this");
  options.add_options("generated")("generate", "", value());
}

std::optional<std::string> requested_text(const ParsedOptions& parsed, const OptionTable& options,
                                          const std::string& notes, const std::vector<std::string>& groups) {
  if (parsed.count("help") > 0) return options.help(groups) + notes;
  if (parsed.count("version") > 0) return version_string() + "\n";
  if (parsed.count("generate") == 0) return std::nullopt;
  const std::vector<PageOption> table = page_options(options, groups);
  switch (option_choice(parsed, "generate", {"man", "bash", "zsh", "names"})) {
    case 0:
      return manual_page(options.program(), options.help(groups), table, notes);
    case 1:
      return bash_completion(options.program(), table);
    case 2:
      return zsh_completion(options.program(), table);
    default:
      break;
  }
  std::string names;
  for (const PageOption& option : table) names += option.name + "\n";
  return names;
}

int run_program(const Program& program, int argc, const char* const* argv,
                const std::function<int(const ParsedOptions& parsed)>& body) {
  install_signal_handlers();
  return run_program(program.name, [&]() -> int {
    OptionTable options = program.options();
    const auto parsed = parse_strictly(options, argc, argv);
    const auto answer = requested_text(parsed, options, program.notes, program.groups);
    if (!answer) return body(parsed);
    std::cout << *answer;
    return kOk;
  });
}

}  // namespace spmm::cli
