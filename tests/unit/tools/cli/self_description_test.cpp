// What every program says about itself: help, version, suggestions, manual page and completions.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "spmm/multiply.hpp"
#include "support/catch.hpp"
#include "unit/tools/tool_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
using Words = std::vector<std::string>;

/// The programs of this build; spmm-mpi if there is MPI.
Words programs() {
  Words names = {"spmm",         "spmm-gen",   "spmm-compare", "spmm-cat",   "spmm-info",
                 "spmm-convert", "spmm-bench", "spmm-dense",   "spmm-batch", "spmm-verify"};
  if (std::filesystem::exists(SPMM_BIN_DIR "/spmm-mpi")) names.emplace_back("spmm-mpi");
  return names;
}

ProcessResult run(const std::string& program, Words arguments, const ProcessOptions& options = {}) {
  arguments.insert(arguments.begin(), SPMM_BIN_DIR "/" + program);
  return run_process(arguments, options);
}

bool has_program(const std::string& name) {
  return run_process({"/bin/sh", "-c", "command -v " + name}).exit_code == 0;
}

std::string page_of(const std::string& program, const std::string& kind) {
  const ProcessResult result = run(program, {"--generate", kind});
  INFO(program << " --generate " << kind << "\n" << result.err);
  REQUIRE(result.exit_code == 0);
  return result.out;
}

Words lines_of(const std::string& text) {
  Words lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// What bash proposes after these words, the last of which is being typed.
Words completions(const std::string& program, const std::string& script, const Words& words) {
  std::string list;
  for (const std::string& word : words) list += " '" + word + "'";
  const std::string code = "source " + script + "; COMP_WORDS=(" + list +
                           "); COMP_CWORD=" + std::to_string(words.size() - 1) + "; f=_" + program +
                           "; ${f//-/_}; printf '%s\\n' \"${COMPREPLY[@]}\"";
  const ProcessResult result = run_process({"/usr/bin/env", "bash", "-eu", "-c", code});
  INFO(code << "\n" << result.err);
  CHECK(result.err.empty());
  return lines_of(result.out);
}

}  // namespace

TEST_CASE("every program has --help and --version, and says what a misspelt option may mean", "[tools][program]") {
  for (const std::string& program : programs()) {
    if (program == "spmm-mpi") continue;  // needs a launcher
    INFO(program);
    const ProcessResult version = run(program, {"--version"});
    CHECK(version.exit_code == 0);
    CHECK(version.out.rfind("spmm ", 0) == 0);
    const ProcessResult help = run(program, {"--help"});
    CHECK(help.exit_code == 0);
    CHECK(has(help.out, "--version"));
    CHECK_FALSE(has(help.out, "generate"));
    const ProcessResult misspelt = run(program, {"--versoin"});
    CHECK(misspelt.exit_code == 2);
    CHECK(misspelt.err ==
          program + ": error: --versoin: is not an option, did you mean --version?; see " + program + " --help\n");
    CHECK(has(run(program, {"-version"}).err, "did you mean --version?"));
    CHECK(run(program, {"--generate", "pdf"}).exit_code == 2);
  }
}

TEST_CASE("a subcommand of spmm is the program of that name", "[tools][program]") {
  const TemporaryFolder folder;
  const ProcessOptions here{.env = {}, .folder = folder.path()};
  const std::string list = run("spmm", {"help"}).out;
  CHECK(has(list, "spmm --help"));
  for (const std::string& program : programs()) {
    if (program == "spmm") continue;
    INFO(program);
    const bool is_part = std::filesystem::is_symlink(SPMM_BIN_DIR "/" + program);
    CHECK(is_part == (program != "spmm-dense" && program != "spmm-mpi"));
    const std::string word = program.substr(program.find('-') + 1);
    CHECK(has(list, "\n  " + word + " ") == is_part);
    if (!is_part) continue;
    const std::string help = run(program, {"--help"}).out;
    CHECK(has(help, "\nUsage:\n  " + program + " "));
    CHECK(has(help, "\n  spmm " + word + " "));
    CHECK(has(run("spmm", {"--help"}).out, "\n  " + word + " "));
    CHECK(run("spmm", {word, "--help"}).out == help);
    CHECK(run("spmm", {"help", word}).out == help);
    CHECK(run("spmm", {word, "--versoin"}).err == run(program, {"--versoin"}).err);
  }
  CHECK(run("spmm", {"help", "gne"}).err ==
        "spmm: error: help: \"gne\" is no subcommand, did you mean gen?; spmm help lists them\n");
  CHECK(run("spmm", {"help", "gen", "info"}).exit_code == 2);

  const Words sizes = {"x.bin", "--n", "64", "--m", "4", "--k", "9", "-q"};
  Words words = sizes;
  words.insert(words.begin(), "gen");
  CHECK(run("spmm", words, here).exit_code == 0);
  words[1] = "y.bin";
  // A name that is none of ours acts as spmm; so does one with a folder that has such a name.
  std::filesystem::create_directory(folder.path() / "spmm-info");
  std::filesystem::create_symlink(SPMM_BIN_DIR "/spmm", folder.path() / "spmm-info" / "multiply");
  words.insert(words.begin(), folder.file("spmm-info/multiply"));
  CHECK(run_process(words, here).exit_code == 0);
  CHECK(run("spmm-compare", {"--any-order", "x.bin", "y.bin"}, here).exit_code == 0);
  CHECK(run("spmm", {"compare", "--any-order", "x.bin", "nowhere.bin"}, here).exit_code == 2);

  // A file of a subcommand's name.
  std::filesystem::rename(folder.path() / "x.bin", folder.path() / "info");
  const ProcessResult either = run("spmm", {"info", "y.bin", "c.bin", "-q"}, here);
  CHECK(either.exit_code == 2);
  CHECK(has(either.err, "spmm: error: info: is a subcommand, and a file here has that name; "));
  CHECK(has(either.err, "for the file write ./info, for the subcommand spmm-info\n"));
  CHECK(run("spmm", {"./info", "y.bin", "c.bin", "-q", "--backend", "cpu"}, here).exit_code == 0);
  CHECK(run("spmm-info", {"info"}, here).exit_code == 0);
}

TEST_CASE("help fits the columns, has groups, and examples before the kernels", "[tools][program]") {
  for (const std::string& program : programs()) {
    if (program == "spmm-mpi") continue;  // needs a launcher
    std::string words[2];
    for (const char* columns : {"72", "400"}) {
      const std::string help = run(program, {"--help"}, {.env = {{"COLUMNS", columns}}, .folder = {}}).out;
      for (const std::string& line : lines_of(help)) {
        INFO(program << ": " << line);
        // A word, such as a path of an example, is not broken.
        if (columns[0] == '7' && line.find(' ', line.find_first_not_of(' ')) != std::string::npos) {
          CHECK(line.size() <= 72);
        }
        CHECK((line.empty() || line.back() != ' '));
      }
      std::istringstream in(help);
      for (std::string word; in >> word;) words[columns[0] == '7' ? 0 : 1] += word + " ";
    }
    CHECK(words[0] == words[1]);
  }
  const std::string help = run("spmm", {"--help"}).out;
  CHECK(run("spmm", {"--help"}, {.env = {{"COLUMNS", "wide"}}, .folder = {}}).out == help);
  std::size_t at = 0;
  for (const char* part : {"\nWhere and how:\n", "\nOperands and result:\n", "\nMessages:\n", "\nSubcommands",
                           "\nExamples:\n", "\nKernels:\n", "\nEnvironment:\n", "\nExit codes:\n"}) {
    INFO(part);
    REQUIRE(help.find(part, at) != std::string::npos);
    at = help.find(part, at);
  }
  const bool has_cuda = has_backend(Backend::cuda);
  CHECK(has(help, "two-pointer     cuda: ") == has_cuda);
  CHECK(has(help, "two-pointer     cuda, not in this build: ") == !has_cuda);
  CHECK(has(help, "row-merge       cpu: "));
}

TEST_CASE("misspelt values, and variables that were options", "[tools][program]") {
  const ProcessResult kernel = run("spmm", {"--kernel", "row-marge", "a", "b", "c"});
  CHECK(kernel.exit_code == 2);
  CHECK(has(kernel.err, "--kernel: \"row-marge\" is not known, did you mean row-merge?; give auto, "));
  CHECK(has(run("spmm", {"--backend", "cud", "a", "b", "c"}).err, "did you mean cuda?; give auto, cuda or cpu"));
  const ProcessOptions old{.env = {{"SPMM_KERNEL", "x"}, {"SPMM_THREADS", "3"}, {"SPMM_MPI", "y"}}, .folder = {}};
  const ProcessResult warned = run("spmm", {"--version"}, old);
  CHECK(warned.exit_code == 0);
  CHECK(warned.err == "spmm: warning: the variable SPMM_KERNEL has no effect, give --kernel\n");
}

TEST_CASE("manual pages have every option and no error for mandoc", "[tools][program]") {
  const TemporaryFolder folder;
  const bool has_mandoc = has_program("mandoc");
  if (!has_mandoc) WARN("mandoc is missing: manual pages are not checked by it");
  for (const std::string& program : programs()) {
    INFO(program);
    const std::string page = page_of(program, "man");
    for (const char* part : {".TH ", "\n.SH NAME\n", "\n.SH SYNOPSIS\n", "\n.SH OPTIONS\n", "\n.SH "}) {
      CHECK(has(page, part));
    }
    for (const std::string& name : lines_of(page_of(program, "names"))) {
      std::string typed;
      for (const char c : (name.size() == 1 ? "-" : "--") + name) typed += c == '-' ? "\\-" : std::string(1, c);
      INFO(typed);
      CHECK(has(page, "\\fB" + typed + "\\fR"));
    }
    if (program != "spmm" && std::filesystem::is_symlink(SPMM_BIN_DIR "/" + program)) {
      CHECK(has(page, "\n.B spmm " + program.substr(5) + "\n"));
      CHECK(has(page_of("spmm", "man"), "\\fBspmm " + program.substr(5) + "\\fR\n"));
    }
    const std::string path = folder.file(program + ".1");
    std::ofstream(path) << page;
    if (!has_mandoc) continue;
    const ProcessResult lint = run_process({"/usr/bin/env", "mandoc", "-T", "lint", "-W", "error", path});
    INFO(lint.out << lint.err);
    CHECK(lint.exit_code == 0);
  }
}

TEST_CASE("completion in bash proposes options, their values and files", "[tools][program]") {
  const TemporaryFolder folder;
  for (const std::string& program : programs()) {
    const std::string script = folder.file(program);
    std::ofstream(script) << page_of(program, "bash");
    INFO(program);
    CHECK(completions(program, script, {program, "--versi"}) == Words{"--version"});
    const Words all = completions(program, script, {program, "--"});
    for (const std::string& name : lines_of(page_of(program, "names"))) {
      if (name.size() > 1) CHECK(std::find(all.begin(), all.end(), "--" + name) != all.end());
    }
    CHECK(completions(program, script, {program, folder.file("spmm-ba")}).size() <= 1);
  }
  const std::string script = folder.file("spmm");
  CHECK(completions("spmm", script, {"spmm", "--backend", "c"}) == Words{"cuda", "cpu"});
  CHECK(completions("spmm", script, {"spmm", "--backend", "="}) == Words{"auto", "cuda", "cpu"});
  CHECK(completions("spmm", script, {"spmm", "--backend", "=", "cp"}) == Words{"cpu"});
  CHECK(completions("spmm", script, {"spmm", "--kernel", "row-m"}) == Words{"row-merge"});
  CHECK(completions("spmm", script, {"spmm", "--report", folder.file("spmm-ge")}) == Words{folder.file("spmm-gen")});
  CHECK(completions("spmm", script, {"spmm", folder.file("spmm-ge")}) == Words{folder.file("spmm-gen")});
  // The first word is a subcommand or a file; "spmm help" takes subcommands alone.
  const std::string gen = folder.file("gen.bin");
  std::ofstream(gen) << "x";
  CHECK(completions("spmm", script, {"spmm", "inf"}) == Words{"info"});
  CHECK(completions("spmm", script, {"spmm", gen.substr(0, gen.size() - 4)}) == Words{gen});
  CHECK(completions("spmm", script, {"spmm", "help", "ver"}) == Words{"verify"});
  CHECK(completions("spmm", script, {"spmm", "--ver"}) == Words{"--verify", "--verify-seed", "--verbose", "--version"});
  // What is installed for spmm has the completions of its subcommands.
  const std::string all = SPMM_BIN_DIR "/../share/bash-completion/completions/spmm";
  CHECK(completions("spmm", all, {"spmm", "gen", "--patt"}) == Words{"--pattern"});
  CHECK(completions("spmm", all, {"spmm", "info", "--type", "u"}) ==
        completions("spmm-info", all, {"spmm-info", "--type", "u"}));
  CHECK(completions("spmm", all, {"spmm", "a.bin", "--patt"}).size() <= 1);
  CHECK(completions("spmm", all, {"spmm", "--backend", "cp"}) == Words{"cpu"});
  std::ofstream(folder.file("two words.bin")) << "x";
  CHECK(completions("spmm", script, {"spmm", folder.file("two")}) == Words{folder.file("two words.bin")});
}

TEST_CASE("completion in zsh is accepted by zsh", "[tools][program]") {
  const TemporaryFolder folder;
  const bool has_zsh = has_program("zsh");
  if (!has_zsh) WARN("zsh is missing: the syntax of its completions is not checked");
  for (const std::string& program : programs()) {
    const std::string page = page_of(program, "zsh");
    INFO(program);
    CHECK(page.rfind("#compdef " + program + "\n", 0) == 0);
    CHECK(has(page, "'--version[print version"));
    const std::string script = folder.file("_" + program);
    std::ofstream(script) << page;
    if (has_zsh) CHECK(run_process({"/usr/bin/env", "zsh", "-n", script}).exit_code == 0);
  }
  CHECK(has(page_of("spmm", "zsh"), ":auto|cuda|cpu:(auto cuda cpu)'"));
  if (!has_zsh) return;
  // Stubs of zsh's own functions say which of them was called.
  const auto called = [&](const std::string& words, int current) {
    const std::string code =
        "_describe() { print -l \"words:\" ${(P)2%%:*} }; _files() { print files }; "
        "_arguments() { print options }; _spmm-gen() { print gen: $words $CURRENT }; words=(" +
        words + "); CURRENT=" + std::to_string(current) + "; source " + folder.file("_spmm");
    const ProcessResult result = run_process({"/usr/bin/env", "zsh", "-fc", code});
    INFO(result.err);
    CHECK(result.err.empty());
    return result.out;
  };
  CHECK(has(called("spmm ge", 2), "words:\ngen\ninfo\n"));
  CHECK(has(called("spmm ge", 2), "\nfiles\n"));
  CHECK(has(called("spmm help ge", 3), "words:\ngen\ninfo\n"));
  CHECK(called("spmm gen --se", 3) == "gen: spmm-gen --se 2\n");
  CHECK(called("spmm --ba", 2) == "options\n");
  CHECK(called("spmm a.bin b", 3) == "options\n");
}

TEST_CASE("completion in fish proposes options, their values, subcommands and files", "[tools][program]") {
  const TemporaryFolder folder;
  const bool has_fish = has_program("fish");
  if (!has_fish) WARN("fish is missing: its completions are not tried");
  for (const std::string& program : programs()) {
    const std::string page = page_of(program, "fish");
    INFO(program);
    CHECK(has(page, "complete -c " + program + " "));
    std::ofstream(folder.file(program + ".fish")) << page;
  }
  if (!has_fish) return;
  std::ofstream(folder.path() / "gene.bin") << "x";
  // fish reads the files of commands that are there.
  const std::string path = std::string(SPMM_BIN_DIR) + ":" + std::getenv("PATH");
  const auto proposed = [&](const std::string& line) {
    const std::string code = "set -p fish_complete_path " + folder.path().string() + "; complete -C '" + line + "'";
    const ProcessResult result =
        run_process({"/usr/bin/env", "fish", "--no-config", "-c", code},
                    {.env = {{"HOME", folder.path().string()}, {"PATH", path}}, .folder = folder.path()});
    INFO(line << "\n" << result.err);
    CHECK(result.err.empty());
    Words words;
    for (const std::string& one : lines_of(result.out)) words.push_back(one.substr(0, one.find('\t')));
    return words;
  };
  CHECK(proposed("spmm gen") == Words{"gen", "gene.bin"});
  CHECK(proposed("spmm help ver") == Words{"verify"});
  CHECK(proposed("spmm --backend c") == Words{"cpu", "cuda"});
  CHECK(proposed("spmm --patt").empty());
  CHECK(proposed("spmm gen --patt") == Words{"--pattern"});
  CHECK(proposed("spmm-gen --patt") == Words{"--pattern"});
  CHECK(proposed("spmm gen gen") == Words{"gene.bin"});
}

TEST_CASE("gen: sizes that cannot be are refused at once", "[tools][gen]") {
  const TemporaryFolder folder;
  const auto refused = [&](const Words& sizes, int code, const std::string& part) {
    Words words = {folder.file("a.bin")};
    words.insert(words.end(), sizes.begin(), sizes.end());
    const ProcessResult result = run("spmm-gen", words);
    INFO(result.err);
    CHECK(result.exit_code == code);
    CHECK(has(result.err, part));
    CHECK_FALSE(std::filesystem::exists(folder.file("a.bin")));
  };
  refused({"--n", "8", "--m", "4", "--k", "5"}, 2, "--k: 5 blocks are more than the 4 places of the matrix");
  refused({"--n", "1e20", "--m", "4", "--k", "5"}, 2,
          "--n: \"1e20\" is beyond 2^64; give a number from 1 to 4294967295");
  refused({"--n", "4294967232", "--m", "64", "--k", "4e9"}, 73, "the file takes 32.8 TB");
}
