// The progress bar: its text, how often it is drawn, and on which terminals.
#include "cli/progress_bar.hpp"

#include <filesystem>

#include "cli/workplace.hpp"
#include "support/catch.hpp"

namespace {

using namespace spmm::cli;
using spmm::Stage;

}  // namespace

TEST_CASE("a progress line shows stage, share, rate and remaining time") {
  CHECK(progress_line(Stage::multiply, 250, 1000, 2.0, 200) ==
        "multiply [#######.......................] 25%  125 rows/s  ETA 0:06");
  CHECK(progress_line(Stage::read, 10, 7200, 1.0, 200) ==
        "read [..............................] 0%  10 B/s  ETA 11:59");
  CHECK(progress_line(Stage::multiply, 0, 0, 1.0, 200) == "multiply [##############################] 100%");
  CHECK(progress_line(Stage::multiply, 5, 10, 0.0, 200) == "multiply [###############...............] 50%");
  CHECK(progress_line(Stage::multiply, 11, 10, 1.0, 200) ==
        "multiply [##############################] 100%  10 rows/s  ETA 0:00");
  CHECK(progress_line(Stage::multiply, 5, 10, 1.0, 12) == "multiply [##");
}

TEST_CASE("the bar is silent in logs, drawn when asked for, and taken away") {
  const spmm::test::Workplace workplace;
  using spmm::test::spmm_command;
  CHECK(spmm_command({"--progress", "auto", "a.bin", "b.bin", "c.bin"}, {{"TERM", "xterm"}}).err.empty());
  const std::string drawn = spmm_command({"--progress", "always", "a.bin", "b.bin", "c.bin"}).err;
  CHECK(drawn.find('%') != std::string::npos);
  CHECK(drawn.ends_with("\r\033[K"));
  CHECK(spmm_command({"-q", "--progress", "always", "a.bin", "b.bin", "c.bin"}).err.empty());
}

TEST_CASE("on a terminal the bar appears unless it is dumb or not wanted") {
  const std::string script = "/usr/bin/script";  // gives the command a terminal
  if (!std::filesystem::exists(script) ||
      spmm::test::run_process({script, "-qec", "test -t 2", "/dev/null"}).exit_code != 0) {
    WARN("skipped: " << script << " cannot make a terminal here");
    return;
  }
  const spmm::test::Workplace workplace;
  const auto output = [&](const std::string& options, const std::string& terminal) {
    const std::string command = spmm::test::spmm_words({})[0] + " " + options + " a.bin b.bin c.bin";
    spmm::test::ProcessOptions how;
    how.env = {{"TERM", terminal}, {"SHELL", "/bin/sh"}};
    return spmm::test::run_process({script, "-qec", command, "/dev/null"}, how).out;
  };
  CHECK(output("", "xterm").find("%") != std::string::npos);
  CHECK(output("", "dumb").find("%") == std::string::npos);
  CHECK(output("--progress never", "xterm").find("%") == std::string::npos);
  CHECK(output("-q", "xterm").empty());
}
