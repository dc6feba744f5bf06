// Help and version on request.
#include "cli/self_description.hpp"

#include "cli/exit_codes.hpp"
#include "cli/options/help.hpp"
#include "cli/options/table.hpp"
#include "cli/program.hpp"
#include "spmm/error.hpp"
#include "spmm/multiply.hpp"

namespace spmm::cli {

void add_common_options(OptionTable& options, const std::string& group) {
  options.add_options(group)("version", "print version, git revision, CUDA version, architectures and backends")(
      "h,help", "print this");
  options.add_options("hidden")("help-all", "");
}

std::optional<std::string> requested_text(const ParsedOptions& parsed, const OptionTable& options,
                                          const std::string& notes) {
  if (parsed.count("help") + parsed.count("help-all") > 0) return help_page(options.page(), notes, help_width());
  if (parsed.count("version") > 0) return version_string() + "\n";
  return std::nullopt;
}

int run_program(const Program& program, int argc, const char* const* argv,
                const std::function<int(const ParsedOptions& parsed)>& body) {
  install_signal_handlers();
  return run_program(program.name, [&]() -> int {
    OptionTable options = program.options();
    const auto parsed = parse_strictly(options, argc, argv);
    const auto answer = requested_text(parsed, options, program.notes);
    if (!answer) return body(parsed);
    print_answer(*answer);
    return kOk;
  });
}

}  // namespace spmm::cli
