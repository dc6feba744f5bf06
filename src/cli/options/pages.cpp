// Manual page and completions, written from the table of options.
#include "cli/options/pages.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "base/text.hpp"
#include "cli/options/table.hpp"
#include "spmm/multiply.hpp"

namespace spmm::cli {
namespace {

/// Of "auto|N": the words in small letters.
std::vector<std::string> choices_of(const std::string& name, const std::string& argument) {
  std::vector<std::string> choices;
  std::istringstream words(argument);
  for (std::string word; std::getline(words, word, '|');) {
    const bool is_word = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
      return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '-';
    });
    if (is_word) choices.push_back(word);
  }
  if (name != "kernel") return choices;
  choices = {"auto"};
  for (const KernelInfo& kernel : kernel_names()) choices.push_back(kernel.name);
  return choices;
}

std::string joined(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : " ") + word;
  return all;
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

}  // namespace

std::vector<PageOption> page_options(const OptionTable& options, const std::vector<std::string>& groups) {
  std::vector<PageOption> all;
  for (const std::string& group : groups) {
    for (const OptionDetails& one : options.options_of(group)) {
      PageOption option{.letter = one.letter, .name = one.name, .description = one.description};
      if (option.name.empty()) option.name = one.letter;
      if (option.letter == option.name) option.letter.clear();
      if (!one.is_switch) option.argument = one.argument.empty() ? "VALUE" : one.argument;
      option.choices = choices_of(option.name, option.argument);
      option.is_file = option.argument == "FILE" || option.argument == "DIR" || option.argument == "PATH";
      all.push_back(std::move(option));
    }
  }
  return all;
}

std::string manual_page(const std::string& program, const std::string& help, const std::vector<PageOption>& options,
                        const std::string& notes) {
  std::istringstream lines(help);
  std::string description;
  std::getline(lines, description);
  std::string usage;
  while (std::getline(lines, usage) && usage.rfind("  " + program, 0) != 0) {
  }
  if (!description.empty() && description.back() == '.') description.pop_back();
  std::string title = program;
  for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const std::string version = version_string();
  std::string page =
      text(".TH ", roff(title), " 1 \"\" \"", version.substr(0, version.find(" (")), "\" \"spmm manual\"\n",
           ".SH NAME\n", roff(program), " \\- ", roff(description), "\n.SH SYNOPSIS\n.B ", roff(program), "\n",
           roff(usage.size() > program.size() + 3 ? usage.substr(program.size() + 3) : ""), "\n.SH OPTIONS\n");
  for (const PageOption& option : options) {
    page += text(".TP\n\\fB", option.letter.empty() ? "" : roff("-" + option.letter) + "\\fR, \\fB",
                 roff(option.typed()), "\\fR", option.argument.empty() ? "" : " \\fI" + roff(option.argument) + "\\fR",
                 "\n", roff(option.description), "\n");
  }
  return page + notes_as_sections(notes);
}

std::string bash_completion(const std::string& program, const std::vector<PageOption>& options) {
  const std::string function = function_of(program);
  std::string names;
  std::string cases;
  for (const PageOption& option : options) {
    names += (names.empty() ? "" : " ") + option.typed();
    if (option.argument.empty()) continue;
    cases += text("    ", option.typed(), ")\n");
    if (!option.choices.empty()) {
      cases += text("      mapfile -t COMPREPLY < <(compgen -W '", joined(option.choices), "' -- \"$cur\")\n");
    } else if (option.is_file) {
      cases += "      mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n";
    }
    cases += "      return\n      ;;\n";
  }
  return text("# Completion of ", program, " in bash, made from its options.\n", function, R"(() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
  COMPREPLY=()
  local subcommand=)",
              function, R"(_${COMP_WORDS[1]}
  if ((COMP_CWORD > 1)) && declare -F "$subcommand" >/dev/null; then
    "$subcommand"
    return
  fi
  if [[ $cur == '=' ]]; then
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
              function, " ", program, "\n");
}

std::string zsh_completion(const std::string& program, const std::vector<PageOption>& options) {
  std::string page =
      text("#compdef ", program, "\n# Completion of ", program, " in zsh, made from its options.\n_arguments -s \\\n");
  for (const PageOption& option : options) {
    const std::string argument = option.argument.empty() ? ""
                                 : !option.choices.empty()
                                     ? text(":", zsh_text(option.argument), ":(", joined(option.choices), ")")
                                 : option.is_file ? text(":", zsh_text(option.argument), ":_files")
                                                  : text(":", zsh_text(option.argument), ":");
    const std::string sign = option.argument.empty() || option.name.size() == 1 ? "" : "=";
    page += text("  '", option.typed(), sign, "[", zsh_text(option.description), "]", argument, "' \\\n");
    if (option.letter.empty()) continue;
    page += text("  '-", option.letter, "[", zsh_text(option.description), "]", argument, "' \\\n");
  }
  return page + "  '*:file:_files'\n";
}

}  // namespace spmm::cli
