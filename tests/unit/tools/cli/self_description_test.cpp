// What every program says about itself: help, version, suggestions; completions and manual pages made of the help.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "spmm/multiply.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
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

Words lines_of(const std::string& text) {
  Words lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

const std::string kCompletions = SPMM_SOURCE_DIR "/tools/completions/";

/// What bash proposes after these words, the last of which is being typed.
Words completions(Words words) {
  words[0] = SPMM_BIN_DIR "/" + words[0];
  std::string list;
  for (const std::string& word : words) list += " '" + word + "'";
  const std::string code = "source " + kCompletions + "spmm.bash; COMP_WORDS=(" + list +
                           "); COMP_CWORD=" + std::to_string(words.size() - 1) +
                           "; _spmm \"${COMP_WORDS[0]}\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
  const ProcessResult result = run_process({"/usr/bin/env", "bash", "-c", code});
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
    const ProcessResult misspelt = run(program, {"--versoin"});
    CHECK(misspelt.exit_code == 2);
    CHECK(has(misspelt.err, "did you mean --version?"));
    CHECK(has(run(program, {"-version"}).err, "did you mean --version?"));
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
    CHECK(has(help, "\nUsage: " + program + " "));
    CHECK(has(help, "\n   or: spmm " + word + " "));
    CHECK(has(run("spmm", {"--help"}).out, "\n  " + word + " "));
    CHECK(run("spmm", {word, "--help"}).out == help);
    CHECK(run("spmm", {"help", word}).out == help);
    CHECK(run("spmm", {word, "--versoin"}).err == run(program, {"--versoin"}).err);
  }
  CHECK(has(run("spmm", {"help", "gne"}).err, "did you mean gen?"));
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
  CHECK(has(either.err, "./info"));
  CHECK(run("spmm", {"./info", "y.bin", "c.bin", "-q", "--backend", "cpu"}, here).exit_code == 0);
  CHECK(run("spmm-info", {"info"}, here).exit_code == 0);
}

TEST_CASE("help is narrow enough, and has examples before the kernels", "[tools][program]") {
  for (const std::string& program : programs()) {
    if (program == "spmm-mpi") continue;  // needs a launcher
    const ProcessResult help = run(program, {"--help", "all"});
    CHECK(help.exit_code == 0);
    for (const std::string& line : lines_of(help.out)) {
      INFO(program << ": " << line);
      CHECK(line.size() <= 125);
      CHECK((line.empty() || line.back() != ' '));
    }
  }
  const std::string first = run("spmm", {"--help"}).out;
  CHECK(lines_of(first).size() <= 45);
  CHECK(has(first, "spmm --help all"));
  CHECK_FALSE(has(first, "--kernel"));
  const std::string help = run("spmm", {"--help", "all"}).out;
  for (const char* const option : {"--kernel", "--verify-seed", "--trace", "--backend"}) CHECK(has(help, option));
  const bool has_cuda = has_backend(Backend::cuda);
  CHECK(has(help, "two-pointer     cuda: ") == has_cuda);
  CHECK(help.find("\nExamples:\n") < help.find("\nKernels:\n"));
}

TEST_CASE("variables that were options are named in a warning", "[tools][program]") {
  const ProcessOptions old{.env = {{"SPMM_KERNEL", "x"}, {"SPMM_THREADS", "3"}, {"SPMM_MPI", "y"}}, .folder = {}};
  const ProcessResult warned = run("spmm", {"--version"}, old);
  CHECK(warned.exit_code == 0);
  CHECK(lines_of(warned.err).size() == 1);
  CHECK(has(warned.err, "SPMM_KERNEL has no effect, give --kernel"));
}

TEST_CASE("help2man makes a manual page of the help, without an error for mandoc", "[tools][program]") {
  if (!has_program("help2man") || !has_program("mandoc")) {
    WARN("help2man or mandoc is missing: manual pages are not checked");
    return;
  }
  const TemporaryFolder folder;
  for (const std::string& program : programs()) {
    if (program == "spmm-mpi") continue;  // needs a launcher
    INFO(program);
    const std::string path = folder.file(program + ".1");
    const ProcessResult made = run_process({"/usr/bin/env", "help2man", "--no-info", "--name=name",
                                            "--version-string=spmm", "--output=" + path, SPMM_BIN_DIR "/" + program});
    INFO(made.err);
    REQUIRE(made.exit_code == 0);
    const std::string page = bytes_of(path);
    for (const char* part : {"\n.SH NAME\n", "\n.SH SYNOPSIS\n.B ", "\\fB\\-\\-help\\fR"}) {
      INFO(part);
      CHECK(has(page, part));
    }
    const ProcessResult lint = run_process({"/usr/bin/env", "mandoc", "-T", "lint", "-W", "error", path});
    INFO(lint.out << lint.err);
    CHECK(lint.exit_code == 0);
  }
}

TEST_CASE("completions name every program", "[tools][program]") {
  const std::string bash = bytes_of(kCompletions + "spmm.bash");
  const std::string fish = bytes_of(kCompletions + "spmm.fish");
  const std::string zsh = bytes_of(kCompletions + "_spmm");
  for (const std::string& program : programs()) {
    INFO(program);
    const std::string word = program == "spmm" ? "spmm" : program.substr(5);
    for (const std::string* list : {&bash, &fish}) {
      const std::string last = list->substr(list->rfind("spmm spmm-{"));
      CHECK(std::regex_search(last, std::regex("\\b" + word + "\\b")));
    }
    CHECK(has(zsh.substr(0, zsh.find('\n')) + " ", " " + program + " "));
  }
}

TEST_CASE("completion in bash proposes options, their values and files", "[tools][program]") {
  const TemporaryFolder folder;
  for (const std::string& program : programs()) {
    if (program == "spmm-mpi") continue;  // needs a launcher
    INFO(program);
    CHECK(completions({program, "--versi"}) == Words{"--version"});
    CHECK(completions({program, folder.file("nothing")}).size() <= 1);
  }
  CHECK(completions({"spmm", "--backend", "c"}) == Words{"cuda", "cpu"});
  CHECK(completions({"spmm", "--backend", "="}) == Words{"auto", "cuda", "cpu"});
  CHECK(completions({"spmm", "--backend", "=", "cp"}) == Words{"cpu"});
  CHECK(completions({"spmm", "--kernel", "row-m"}) == Words{"row-merge"});
  CHECK(completions({"spmm", "--verify", "f"}) == Words{"full"});
  CHECK(completions({"spmm", "--ver"}) == Words{"--verify", "--verify-seed", "--verbose", "--version"});
  // The first word is a subcommand or a file; "spmm help" takes subcommands alone.
  const std::string gen = folder.file("gen.bin");
  std::ofstream(gen) << "x";
  CHECK(completions({"spmm", "inf"}) == Words{"info"});
  CHECK(completions({"spmm", gen.substr(0, gen.size() - 4)}) == Words{gen});
  CHECK(completions({"spmm", "--report", gen.substr(0, gen.size() - 4)}) == Words{gen});
  CHECK(completions({"spmm", "help", "ver"}) == Words{"verify"});
  CHECK(completions({"spmm", "gen", "--patt"}) == Words{"--pattern"});
  CHECK(completions({"spmm-gen", "--patt"}) == Words{"--pattern"});
  CHECK(completions({"spmm", "a.bin", "--patt"}).size() <= 1);
  std::ofstream(folder.file("two words.bin")) << "x";
  CHECK(completions({"spmm", folder.file("two")}) == Words{folder.file("two words.bin")});
}

TEST_CASE("completion in zsh proposes options, their values, subcommands and files", "[tools][program]") {
  if (!has_program("zsh")) {
    WARN("zsh is missing: its completions are not tried");
    return;
  }
  // Stubs of zsh's own functions print what they are called with.
  const auto called = [&](const std::string& words, int current) {
    const std::string code =
        "_describe() { print -l \"words:\" ${(P)2%%:*} }; _files() { print files }; "
        "_arguments() { print -l options: $@ }; words=(" SPMM_BIN_DIR "/" +
        words + "); CURRENT=" + std::to_string(current) + "; source " + kCompletions + "_spmm";
    const ProcessResult result = run_process({"/usr/bin/env", "zsh", "-fc", code});
    INFO(result.err);
    CHECK(result.err.empty());
    return result.out;
  };
  CHECK(has(called("spmm ge", 2), "words:\ngen\ninfo\n"));
  CHECK(has(called("spmm ge", 2), "\nfiles\n"));
  CHECK(has(called("spmm help ge", 3), "words:\ngen\ninfo\n"));
  CHECK(has(called("spmm gen --patt", 3), "\n--pattern["));
  CHECK(has(called("spmm-gen --patt", 2), "\n--pattern["));
  const std::string options = called("spmm a.bin --ba", 3);
  CHECK(has(options, "options:\n-s\n--"));
  CHECK(has(options, ":auto|cuda|cpu:(auto cuda cpu)\n"));
  CHECK(has(options, "\n--quiet[no summary line"));
  CHECK(has(options, "\n--report[write a JSON report; - = standard output]:FILE:_files\n"));
  CHECK_FALSE(has(options, "--pattern"));
}

TEST_CASE("completion in fish proposes options, their values, subcommands and files", "[tools][program]") {
  if (!has_program("fish")) {
    WARN("fish is missing: its completions are not tried");
    return;
  }
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "gene.bin") << "x";
  // fish reads the files of commands that are there.
  const std::string path = std::string(SPMM_BIN_DIR) + ":" + std::getenv("PATH");
  const auto proposed = [&](const std::string& line) {
    const std::string code = "source " + kCompletions + "spmm.fish; complete -C '" + line + "'";
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
  CHECK(proposed("spmm --backe") == Words{"--backend"});
  CHECK(proposed("spmm gen --patt") == Words{"--pattern"});
  CHECK(proposed("spmm-gen --patt") == Words{"--pattern"});
  CHECK(proposed("spmm gen gen") == Words{"gene.bin"});
}
