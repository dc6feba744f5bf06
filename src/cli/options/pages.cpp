// Manual page and completions, written from the table of options.
#include "cli/options/pages.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "base/text.hpp"
#include "cli/options/table.hpp"
#include "spmm/multiply.hpp"

namespace spmm::cli {
namespace {

constexpr std::size_t kFullWidth = 120;  // of the texts in the sources
constexpr std::size_t kLeastWidth = 40;
constexpr std::size_t kWidestOption = 30;

/// Of "auto|N": the words in small letters.
std::vector<std::string> choices_of(const OptionDetails& option) {
  std::vector<std::string> choices;
  std::istringstream words(option.argument);
  for (std::string word; std::getline(words, word, '|');) {
    const bool is_word = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
      return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '-';
    });
    if (is_word) choices.push_back(word);
  }
  if (option.name != "kernel") return choices;
  choices = {"auto"};
  for (const KernelInfo& kernel : kernel_names()) choices.push_back(kernel.name);
  return choices;
}

bool is_file(const OptionDetails& option) {
  return option.argument == "FILE" || option.argument == "DIR" || option.argument == "PATH";
}

std::string joined(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : " ") + word;
  return all;
}

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

/// Text for roff: backslashes and dashes as they are, no line that looks like a request.
std::string roff(const std::string& plain) {
  std::string out;
  bool at_start = true;
  for (const char c : plain) {
    if (at_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
    at_start = c == '\n';
  }
  return out;
}

/// Lines of the notes: a line that is a heading ("Exit codes:") starts a section, all else stays as it is set.
std::string notes_as_sections(const std::string& notes) {
  std::string page;
  bool is_open = false;
  const auto close = [&] {
    if (is_open) page += ".fi\n";
    is_open = false;
  };
  std::istringstream lines(notes);
  std::size_t empty_lines = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) {
      ++empty_lines;
      continue;
    }
    const bool is_heading =
        line.back() == ':' && line.size() < 30 && std::isupper(static_cast<unsigned char>(line[0])) != 0;
    if (is_heading) {
      close();
      line.pop_back();
      for (char& c : line) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      page += ".SH " + roff(line) + "\n.nf\n";
      is_open = true;
    } else {
      if (!is_open)
        page += ".SH NOTES\n.nf\n";
      else if (empty_lines > 0)
        page += ".sp\n";
      is_open = true;
      page += roff(line) + "\n";
    }
    empty_lines = 0;
  }
  close();
  return page;
}

/// A name for a shell function.
std::string function_of(std::string program) {
  std::replace(program.begin(), program.end(), '-', '_');
  return "_" + program;
}

/// "gen info compare"
std::string words_of(const std::vector<SubcommandName>& subcommands) {
  std::vector<std::string> words;
  for (const SubcommandName& one : subcommands) words.push_back(one.word);
  return joined(words);
}

/// Inside single quotes of zsh's _arguments.
std::string zsh_text(const std::string& plain) {
  std::string out;
  for (const char c : plain) {
    if (c == '\'') {
      out += "'\\''";
      continue;
    }
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

/// Inside single quotes of fish.
std::string fish_text(const std::string& plain) {
  std::string out;
  for (const char c : plain) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out;
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
  std::string page = text(wrapped(about.description, std::min(width, kFullWidth - 1)), "\nUsage:\n  ", about.program,
                          " ", about.arguments, "\n");
  if (!about.other_form.empty()) page += text("  ", about.other_form, " ", about.arguments, "\n");
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

std::string manual_page(const ProgramPage& about, const std::string& notes) {
  std::string description = about.description.substr(0, about.description.find('\n'));
  if (!description.empty() && description.back() == '.') description.pop_back();
  const std::string program = about.program;
  std::string title = program;
  for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const std::string version = version_string();
  std::string page = text(".TH ", roff(title), " 1 \"\" \"", version.substr(0, version.find(" (")),
                          "\" \"spmm manual\"\n", ".SH NAME\n", roff(program), " \\- ", roff(description),
                          "\n.SH SYNOPSIS\n.B ", roff(program), "\n", roff(about.arguments), "\n");
  if (!about.other_form.empty()) {
    page += text(".br\n.B ", roff(about.other_form), "\n", roff(about.arguments), "\n");
  }
  page += ".SH OPTIONS\n";
  const std::vector<OptionDetails>& options = about.options;
  const bool has_groups = options.front().group != options.back().group;
  for (std::size_t o = 0; o < options.size(); ++o) {
    const OptionDetails& option = options[o];
    const std::string heading = has_groups ? group_heading(options, o) : "";
    if (!heading.empty()) page += text(".SS \"", roff(heading), "\"\n");
    page += text(".TP\n\\fB", option.letter.empty() ? "" : roff("-" + option.letter) + "\\fR, \\fB",
                 roff(option.typed()), "\\fR", option.is_switch() ? "" : " \\fI" + roff(option.argument) + "\\fR", "\n",
                 roff(option.description), option.otherwise ? roff(" (default: " + *option.otherwise + ")") : "", "\n");
  }
  if (!about.subcommands.empty()) page += ".SH SUBCOMMANDS\n";
  for (const SubcommandName& one : about.subcommands) {
    page += text(".TP\n\\fB", roff(program + " " + one.word), "\\fR\n", roff(one.summary),
                 one.word == "help" ? "" : text("; see \\fB", roff(program + "-" + one.word), "\\fR(1)"), "\n");
  }
  return page + notes_as_sections(notes);
}

std::string bash_completion(const ProgramPage& about) {
  const std::string function = function_of(about.program);
  std::string names;
  std::string cases;
  for (const OptionDetails& option : about.options) {
    names += (names.empty() ? "" : " ") + option.typed();
    if (option.is_switch()) continue;
    cases += text("    ", option.typed(), ")\n");
    if (const auto choices = choices_of(option); !choices.empty()) {
      cases += text("      mapfile -t COMPREPLY < <(compgen -W '", joined(choices), "' -- \"$cur\")\n");
    } else if (is_file(option)) {
      cases += "      mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n";
    }
    cases += "      return\n      ;;\n";
  }
  const std::string words = words_of(about.subcommands);
  const std::string dispatch = words.empty() ? ""
                                             : text(R"(  local subcommands=')", words, R"('
  if ((COMP_CWORD == 1)) && [[ $cur != -* ]]; then
    mapfile -t COMPREPLY < <(compgen -f -W "$subcommands" -- "$cur")
    return
  elif ((COMP_CWORD == 2)) && [[ $prev == help ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$subcommands" -- "$cur")
    return
  elif ((COMP_CWORD > 1)) && declare -F ")",
                                                    function, R"(_${COMP_WORDS[1]}" >/dev/null; then
    ")",
                                                    function, R"(_${COMP_WORDS[1]}"
    return
  fi
)");
  return text("# Completion of ", about.program, " in bash, made from its options.\n", function, R"(() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
  COMPREPLY=()
)",
              dispatch, R"(  if [[ $cur == '=' ]]; then
    cur=
  elif [[ $prev == '=' ]]; then
    prev=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  case $prev in
)",
              cases, R"(  esac
  if [[ $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W ')",
              names, R"(' -- "$cur")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
  fi
}
complete -o filenames -F )",
              function, " ", about.program, "\n");
}

std::string zsh_completion(const ProgramPage& about) {
  const std::string& program = about.program;
  std::string page = text("#compdef ", program, "\n# Completion of ", program, " in zsh, made from its options.\n");
  if (!about.subcommands.empty()) {
    page += "local -a subcommands=(\n";
    for (const SubcommandName& one : about.subcommands) {
      page += text("  '", one.word, ":", zsh_text(one.summary), "'\n");
    }
    page += text(R"()
if ((CURRENT == 2)) && [[ $words[2] != -* ]]; then
  _describe subcommand subcommands
  _files
  return
elif ((CURRENT == 3)) && [[ $words[2] == help ]]; then
  _describe subcommand subcommands
  return
elif ((CURRENT > 2 && $+functions[_)",
                 program, R"(-$words[2]])); then
  words=()",
                 program, R"(-$words[2] $words[3,-1])
  ((CURRENT--))
  _$words[1]
  return
fi
)");
  }
  page += "_arguments -s \\\n";
  for (const OptionDetails& option : about.options) {
    const auto choices = choices_of(option);
    const std::string argument = option.is_switch() ? ""
                                                    : text(":", zsh_text(option.argument), ":",
                                                           !choices.empty()  ? text("(", joined(choices), ")")
                                                           : is_file(option) ? "_files"
                                                                             : "");
    const std::string sign = option.is_switch() || option.name.size() == 1 ? "" : "=";
    page += text("  '", option.typed(), sign, "[", zsh_text(option.description), "]", argument, "' \\\n");
    if (option.letter.empty()) continue;
    page += text("  '-", option.letter, "[", zsh_text(option.description), "]", argument, "' \\\n");
  }
  return page + "  '*:file:_files'\n";
}

std::string fish_completion(const ProgramPage& about) {
  const std::string& program = about.program;
  const std::string words = words_of(about.subcommands);
  const std::string start = text("complete -c ", program, " ");
  std::string page = text("# Completion of ", program, " in fish, made from its options.\n");
  std::string condition;
  if (!words.empty()) {
    page += text(R"~(function __spmm_subcommand
    set -l words (commandline -opc)
    contains -- "$words[2]" )~",
                 words, R"~(
end
function __spmm_rest
    set -l words (commandline -opc)
    if test $words[2] = help
        string split ' ' ')~",
                 words, R"~('
    else
        complete -C ")~",
                 program, R"~(-"(string escape -- $words[2..-1] | string join ' ')" "(commandline -ct)
    end
end
)~");
    page += start + "-n __spmm_subcommand -f -a '(__spmm_rest)'\n";
    for (const SubcommandName& one : about.subcommands) {
      page += text(start, "-n 'test (count (commandline -opc)) -eq 1' -a ", one.word, " -d '", fish_text(one.summary),
                   "'\n");
    }
    condition = "-n 'not __spmm_subcommand' ";
  }
  for (const OptionDetails& option : about.options) {
    page += start + condition;
    if (!option.letter.empty()) page += text("-s ", option.letter, " ");
    page += text(option.name.size() == 1 ? "-s " : "-l ", option.name, " ");
    const auto choices = choices_of(option);
    if (!option.is_switch()) page += is_file(option) ? "-r -F " : "-x ";
    if (!choices.empty()) page += text("-a '", joined(choices), "' ");
    page += text("-d '", fish_text(option.description), "'\n");
  }
  return page;
}

}  // namespace spmm::cli
