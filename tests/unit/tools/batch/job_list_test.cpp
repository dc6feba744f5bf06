// Lists of jobs: what is read, what is refused and how.
#include "tools/batch/batch.hpp"

#include <string>
#include <vector>

#include "spmm/error.hpp"
#include "support/catch.hpp"

namespace {

using namespace spmm;
using namespace spmm::batch;

const ListPlace kPlace{.name = "jobs.tsv", .folder = "/data/run"};

std::vector<Job> parsed(std::string_view text, const Job& defaults = {}) {
  Problems problems;
  std::vector<Job> jobs = parse_job_list(text, kPlace, defaults, problems);
  CHECK(problems.count == 0);
  return jobs;
}

std::string problem_of(std::string_view line) {
  Problems problems;
  parse_job_list(line, kPlace, {}, problems);
  return problems.messages.empty() ? "" : problems.messages.front();
}

}  // namespace

TEST_CASE("lines, comments, paths and line ends of a list") {
  const std::vector<Job> jobs =
      parsed("\xEF\xBB\xBF# head\n\n  # indented\na.bin\tb.bin\tc.bin\r\n/x/a\t../b\t./sub//c\na b\tc d\te f");
  REQUIRE(jobs.size() == 3);
  CHECK(jobs[0].line == 4);
  CHECK(jobs[0].a == "/data/run/a.bin");
  CHECK(jobs[0].out == "/data/run/c.bin");
  CHECK(jobs[1].a == "/x/a");
  CHECK(jobs[1].b == "/data/b");
  CHECK(jobs[1].out == "/data/run/sub/c");
  CHECK(jobs[2].a == "/data/run/a b");
  CHECK(jobs[2].line == 6);
}

TEST_CASE("columns override the defaults") {
  Job defaults;
  defaults.timeout_s = 7;
  const std::vector<Job> jobs = parsed(
      "a\tb\tc\tkernel=row-merge\tverify=10\tdurable=1\tno-clobber=yes\ttimeout=5m\ton-saturation=error\n"
      "a\tb\td\tbackend=cuda\tverify=full\trows=2:\na\tb\te\n",
      defaults);
  REQUIRE(jobs.size() == 3);
  const ProductOptions& first = jobs[0].product;
  CHECK(first.kernel == "row-merge");
  CHECK(first.backend == Backend::cpu);  // the kernel's
  CHECK(first.verify_blocks == 10);
  CHECK(first.durable);
  CHECK(first.no_clobber);
  CHECK(jobs[0].timeout_s == 300);
  CHECK(jobs[1].product.backend == Backend::cuda);
  CHECK(jobs[1].product.verify_full);
  CHECK(jobs[2].timeout_s == 7);
  // A line of what its output depends on; read again it says the same.
  CHECK(job_line(jobs[0]) == "/data/run/a\t/data/run/b\t/data/run/c\tverify=10\ton-saturation=error\tdurable=1");
  CHECK(job_line(jobs[1]) == "/data/run/a\t/data/run/b\t/data/run/d\trows=2:\tverify=full");
  CHECK(job_line(parsed(job_line(jobs[0]))[0]) == job_line(jobs[0]));
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
      {"a\tb\tc\tbackend=tpu", "backend: \"tpu\" is not known, did you mean cpu?; give auto, cuda or cpu"},
      {"a\tb\tc\tkernel=fast", "kernel: \"fast\" is not known"},
      {"a\tb\tc\tbackend=cuda\tkernel=row-merge", "kernel row-merge belongs to backend cpu, not cuda"},
      {"a\tb\tc\tverify=-1", "verify: \"-1\" is not known"},
      {"a\tb\tc\tverify=many", "verify: \"many\" is not known; give full or a number"},
      {"a\tb\tc\ton-saturation=warn", "on-saturation: \"warn\" is not known"},
      {"a\tb\tc\tdurable=perhaps", "durable: \"perhaps\" is neither on nor off"},
      {"a\tb\tc\tno-clobber=", "no-clobber: \"\" is neither on nor off"},
      {"a\tb\tc\ttimeout=soon", "timeout: \"soon\" is not a time"},
      {"a\tb\tc\ttimeout=-5", "timeout: \"-5\" is not a time"},
      {"a\tb\tc\ttimeout=5y", "timeout: \"5y\" is not a time"},
      {"a\tb\tc\trows=1:2\trows=1:2", "key \"rows\" is given twice"},
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
  Problems problems;
  CHECK(parse_job_list(text + "a\tb\tc\n", kPlace, {}, problems).size() == 1);
  CHECK(problems.count == 100);
  CHECK(problems.exit_code == 65);
  CHECK(problems.messages.size() == Problems::kMaxShown);
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
