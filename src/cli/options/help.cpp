// What --help prints, from the table of options.
#include "cli/options/help.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "base/text.hpp"
#include "cli/options/table.hpp"

namespace spmm::cli {
namespace {

constexpr std::size_t kFullWidth = 120;  // of the texts in the sources
constexpr std::size_t kLeastWidth = 40;
constexpr std::size_t kWidestOption = 30;

/// Where the lines that continue this one begin: below the text behind two spaces, as in lists.
std::size_t hanging_indent(const std::string& line, std::size_t width) {
  const std::size_t first = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t text_at = line.find_first_not_of(' ', line.find("  ", first));
  return text_at == std::string::npos || text_at > width * 3 / 4 ? first : text_at;
}

/// Whether a line was broken because the next word did not fit.
bool is_broken(const std::string& line, const std::string& next) {
  const std::size_t first = next.find_first_not_of(' ');
  if (line.empty() || first == std::string::npos || first != hanging_indent(line, kFullWidth)) return false;
  return line.size() + 1 + std::min(next.find(' ', first), next.size()) - first >= kFullWidth - 5;
}

/// Lines of at most `width` characters. Shapes: plain = lines of about kFullWidth.
std::string wrapped(const std::string& plain, std::size_t width) {
  if (width >= kFullWidth) return plain;
  std::vector<std::string> lines;
  std::string last;
  std::istringstream in(plain);
  for (std::string line; std::getline(in, line); last = line) {
    if (!lines.empty() && is_broken(last, line)) {
      lines.back() += " " + line.substr(line.find_first_not_of(' '));
    } else {
      lines.push_back(line);
    }
  }
  std::string out;
  for (std::string& line : lines) {
    const std::size_t indent = hanging_indent(line, width);
    while (line.size() > width) {
      const std::size_t space = line.rfind(' ', width);
      const std::size_t end = line.find_last_not_of(' ', space) + 1;
      if (space == std::string::npos || end <= indent) break;
      out += line.substr(0, end) + "\n";
      line = std::string(indent, ' ') + line.substr(space + 1);
    }
    out += line + "\n";
  }
  return out;
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

}  // namespace

std::size_t help_width() {
  const char* given = std::getenv("COLUMNS");
  std::size_t columns = given == nullptr ? 0 : std::strtoul(given, nullptr, 10);
  winsize terminal{};
  if (columns == 0 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &terminal) == 0) columns = terminal.ws_col;
  return columns == 0 ? kFullWidth : std::clamp(columns, kLeastWidth, kFullWidth);
}

std::string help_page(const ProgramPage& about, const std::string& notes, std::size_t width) {
  std::string page = text(wrapped(about.description, std::min(width, kFullWidth - 1)), "\nUsage: ", about.program, " ",
                          about.arguments, "\n");
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
    const std::string line = text(option_line(options[o], column), options[o].description,
                                  options[o].otherwise ? " (default: " + *options[o].otherwise + ")" : "", "\n");
    // What is longer than the page was not broken by hand.
    page += wrapped(line, std::min(width, kFullWidth - 1));
  }
  std::string list;
  if (!about.subcommands.empty()) list = "\nSubcommands, as spmm gen; spmm help NAME shows the options of one:\n";
  for (const SubcommandName& one : about.subcommands) {
    list += text("  ", one.word, std::string(10 - std::min<std::size_t>(9, one.word.size()), ' '), one.summary, "\n");
  }
  return page + wrapped(list + notes, width);
}

}  // namespace spmm::cli
