// Help, made of the table of options, and version on request.
#include "cli/self_description.hpp"

#include <algorithm>

#include "base/text.hpp"

#include "cli/exit_codes.hpp"
#include "cli/options/table.hpp"
#include "cli/program.hpp"
#include "spmm/error.hpp"
#include "spmm/multiply.hpp"

namespace spmm::cli {
namespace {

constexpr std::size_t kWidth = 119;
constexpr std::size_t kWidestOption = 30;

/// Lines of at most kWidth characters, of which the first begins at `indent` and the others are indented.
std::string wrapped(std::string plain, std::size_t indent) {
  std::string out;
  while (indent + plain.size() > kWidth) {
    const std::size_t space = plain.rfind(' ', kWidth - indent);
    if (space == std::string::npos) break;
    out += plain.substr(0, space) + "\n" + std::string(indent, ' ');
    plain.erase(0, space + 1);
  }
  return out + plain + "\n";
}

/// "  -q, --quiet", padded to where the descriptions begin.
std::string option_line(const OptionDetails& option, std::size_t column) {
  std::string line = option.letter.empty() && option.name.size() > 1 ? "      " : "  ";
  if (!option.letter.empty()) line += "-" + option.letter + ", ";
  line += option.typed() + (option.is_switch() ? "" : " " + option.argument);
  if (column == 0) return line;
  if (line.size() + 2 > column) return line + "\n" + std::string(column, ' ');
  return line + std::string(column - line.size(), ' ');
}

/// The heading of an option, if it begins a group.
std::string group_heading(const std::vector<OptionDetails>& options, std::size_t index) {
  const std::string& group = options[index].group;
  if (index > 0 && options[index - 1].group == group) return "";
  return group.empty() ? "Options" : group;
}

/// What --help prints. Values: notes = what follows the options.
std::string help_page(const ProgramPage& about, const std::string& notes) {
  std::string page = text(about.description, "\nUsage: ", about.program, " ", about.arguments, "\n");
  if (!about.other_form.empty()) page += text("   or: ", about.other_form, " ", about.arguments, "\n");
  const std::vector<OptionDetails>& options = about.options;
  std::size_t column = 0;
  for (const OptionDetails& option : options) {
    const std::size_t size = option_line(option, 0).size() + 2;
    if (size <= kWidestOption) column = std::max(column, size);
  }
  for (std::size_t o = 0; o < options.size(); ++o) {
    const std::string heading = group_heading(options, o);
    if (!heading.empty()) page += "\n" + heading + ":\n";
    const std::string otherwise = options[o].otherwise ? " (default: " + *options[o].otherwise + ")" : "";
    page += option_line(options[o], column) + wrapped(options[o].description + otherwise, column);
  }
  std::string list;
  if (!about.subcommands.empty()) list = "\nSubcommands, as spmm gen; spmm help NAME shows the options of one:\n";
  for (const SubcommandName& one : about.subcommands) {
    list += text("  ", one.word, std::string(10 - std::min<std::size_t>(9, one.word.size()), ' '), one.summary, "\n");
  }
  return page + list + notes;
}

}  // namespace

void add_common_options(OptionTable& options, const std::string& group) {
  options.add_options(group)("version", "print version, git revision, CUDA version, architectures and backends")(
      "h,help", "print this");
  options.add_options("hidden")("help-all", "");
}

std::optional<std::string> requested_text(const ParsedOptions& parsed, const OptionTable& options,
                                          const std::string& notes) {
  if (parsed.count("help") + parsed.count("help-all") > 0) return help_page(options.page(), notes);
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
