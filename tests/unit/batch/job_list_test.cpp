// Lists of jobs: what is read, what is refused and how.
#include "tools/batch/list/jobs.hpp"

#include <string>
#include <vector>

#include "cli/program.hpp"
#include "spmm/error.hpp"
#include "support/catch.hpp"

namespace {

using namespace spmm;
using namespace spmm::batch;

const ListPlace kPlace{.name = "jobs.tsv", .folder = "/data/run"};

JobList parsed(std::string_view text, const JobOptions& defaults = {}) {
  return parse_job_list(text, kPlace, defaults);
}

std::string problem_of(std::string_view line) {
  const JobList list = parsed(line);
  return list.problems.empty() ? "" : list.problems.front();
}

}  // namespace

TEST_CASE("lines, comments, paths and line ends of a list") {
  const JobList list =
      parsed("\xEF\xBB\xBF# head\n\n  # indented\na.bin\tb.bin\tc.bin\r\n/x/a\t../b\t./sub//c\na b\tc d\te f");
  REQUIRE(list.problems.empty());
  REQUIRE(list.jobs.size() == 3);
  CHECK(list.jobs[0].line == 4);
  CHECK(list.jobs[0].a == "/data/run/a.bin");
  CHECK(list.jobs[0].out == "/data/run/c.bin");
  CHECK(list.jobs[1].a == "/x/a");
  CHECK(list.jobs[1].b == "/data/b");
  CHECK(list.jobs[1].out == "/data/run/sub/c");
  CHECK(list.jobs[2].a == "/data/run/a b");
  CHECK(list.jobs[2].line == 6);
  CHECK_FALSE(list.has_costs);
}

TEST_CASE("columns override the defaults") {
  JobOptions defaults;
  defaults.timeout_s = 7;
  const JobList list = parsed(
      "a\tb\tc\tkernel=row-merge\tverify=10\tdurable=1\tno-clobber=yes\ttimeout=5m\tretries=0\tcost=2.5\n"
      "a\tb\td\tbackend=cuda\tverify=full\na\tb\te\n",
      defaults);
  REQUIRE(list.problems.empty());
  REQUIRE(list.jobs.size() == 3);
  const JobOptions& first = list.jobs[0].options;
  CHECK(first.kernel == "row-merge");
  CHECK(first.backend == Backend::cpu);  // the kernel's
  CHECK(first.verify_blocks == 10);
  CHECK(first.durable);
  CHECK(first.no_clobber);
  CHECK(first.timeout_s == 300);
  CHECK(first.retries == 0);
  CHECK(list.jobs[0].cost_micro == 2'500'000);
  CHECK(list.jobs[1].options.backend == Backend::cuda);
  CHECK(list.jobs[1].options.verify_blocks == cli::kVerifyFull);
  CHECK(list.jobs[2].options.timeout_s == 7);
  CHECK(list.has_costs);
}

TEST_CASE("malformed lines are refused with line, problem and hint") {
  const std::string long_path(5000, 'x');
  const std::string endless(20000, 'x');
  struct Case {
    std::string line;
    std::string problem;
  };
  const std::vector<Case> table = {
      {"a b c", "has 1 column, expected A, B and OUT"},
      {"a\tb", "has 2 columns"},
      {"\tb\tc", "A is empty"},
      {"a\t\tc", "B is empty"},
      {"a\tb\t", "OUT is empty"},
      {"a\tb\tc\td", "column \"d\" is not key=value"},
      {"a\tb\tc\t", "column \"\" is not key=value"},
      {"a\tb\tc\t=1", "is not key=value"},
      {"a\tb\tc\tcolour=red", "key \"colour\" is not known"},
      {"a\tb\tc\tbackend=tpu", "backend \"tpu\" is not known"},
      {"a\tb\tc\tkernel=fast", "kernel \"fast\" is not known"},
      {"a\tb\tc\tbackend=cuda\tkernel=row-merge", "kernel row-merge belongs to backend cpu, not cuda"},
      {"a\tb\tc\tverify=-1", "verify: \"-1\" is not known"},
      {"a\tb\tc\tverify=many", "verify: \"many\" is not known; give full or a number"},
      {"a\tb\tc\tdurable=perhaps", "durable=perhaps is neither on nor off"},
      {"a\tb\tc\tno-clobber=", "no-clobber= is neither on nor off"},
      {"a\tb\tc\ttimeout=soon", "timeout: \"soon\" is not a time"},
      {"a\tb\tc\ttimeout=-5", "timeout: \"-5\" is not a time"},
      {"a\tb\tc\ttimeout=5y", "timeout: \"5y\" is not a time"},
      {"a\tb\tc\tretries=101", "retries: \"101\" is not a whole number from 0 to 100"},
      {"a\tb\tc\tcost=-1", "cost \"-1\" is not a number"},
      {"a\tb\tc\tcost=nan", "cost \"nan\" is not a number"},
      {"a\tb\tc\tcost=1e13", "cost \"1e13\" is not a number"},
      {"a\tb\tc\tcost=1\tcost=2", "key \"cost\" is given twice"},
      {std::string("a\0\tb\tc", 7), "holds a zero byte"},
      {long_path + "\tb\tc", "A has 5010 characters"},
      {endless + "\tb\tc", "expected at most 16384"},
  };
  for (const Case& c : table) {
    const std::string problem = problem_of("# first\n" + c.line + "\n");
    INFO(c.line.substr(0, 60) << " -> " << problem);
    CHECK(problem.starts_with("jobs.tsv:2"));
    CHECK(problem.find(c.problem) != std::string::npos);
    CHECK(problem.find("; ") != std::string::npos);
  }
}

TEST_CASE("all bad lines are counted, the first are shown") {
  std::string text;
  for (int l = 0; l < 100; ++l) text += "bad\n";
  const JobList list = parsed(text + "a\tb\tc\n");
  CHECK(list.num_problems == 100);
  CHECK(list.problems.size() == kMaxProblems);
  CHECK(list.jobs.size() == 1);
}

TEST_CASE("times") {
  CHECK(parse_seconds("1.5", "x") == 1.5);
  CHECK(parse_seconds("30s", "x") == 30);
  CHECK(parse_seconds("2h", "x") == 7200);
  CHECK(parse_seconds("1d", "x") == 86400);
  for (const char* bad : {"", "s", "1 s", "1e99", "inf", "1h30m"}) {
    INFO(bad);
    CHECK_THROWS_AS(parse_seconds(bad, "x"), UsageError);
  }
}
