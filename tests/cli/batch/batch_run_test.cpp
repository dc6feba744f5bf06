// Lists from start to end: outputs, resume, shards, standard input, reports, failures that stay alone.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/batch/batch_place.hpp"
#include "support/catch.hpp"
#include "support/json_schema.hpp"
#include "test_paths.hpp"

namespace {

using namespace spmm::test;
namespace fs = std::filesystem;
using Names = std::vector<std::string>;
using Json = nlohmann::json;

Json report_of(const std::string& path) {
  return parse_report("batch-report", bytes_of(path));
}

std::vector<Names> table_of(const std::string& text) {
  std::vector<Names> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    Names row;
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, '\t');) row.push_back(cell);
    rows.push_back(row);
  }
  return rows;
}

}  // namespace

TEST_CASE("a list gives the bytes of single products, and --resume does nothing more") {
  BatchPlace place;
  const std::size_t num_jobs = place.write_list();
  ProcessResult result = run_batch({"jobs.tsv", "--report", "r.json"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(place.wrong_outputs().empty());
  CHECK(result.out.find("16 jobs: 16 done, 0 failed") != std::string::npos);
  const Json report = report_of("r.json");
  CHECK(report["totals"]["done"] == num_jobs);
  CHECK(report["jobs"].size() == num_jobs);
  for (const Json& job : report["jobs"]) {
    CHECK(job["state"] == "done");
    CHECK(job["backend"] == "cpu");
    CHECK(job["out_bytes"] == fs::file_size(job["out"].get<std::string>()));
    CHECK(job["queue_s"] >= 0);
    CHECK(job["threads"] == 1);
  }
  fs::remove("r.json");
  CHECK(place.unexpected_files().empty());

  result = run_batch({"jobs.tsv", "--resume", "--report", "-"});
  CHECK(result.exit_code == 0);
  CHECK(parse_report("batch-report", result.out)["totals"]["done_before"] == num_jobs);
  CHECK(parse_report("batch-report", result.out)["totals"]["done"] == 0);
}

TEST_CASE("--resume runs what was removed or changed, in any order of the list") {
  BatchPlace place;
  const std::size_t num_jobs = place.write_list();
  REQUIRE(run_batch({"jobs.tsv"}).exit_code == 0);
  fs::remove("c12-0.bin");
  write_bytes("c21-0.bin", "short");
  fs::last_write_time("3.bin", fs::last_write_time("3.bin") + std::chrono::seconds(5));
  std::string reversed;
  for (const Names& row : table_of(bytes_of("jobs.tsv"))) {
    if (row.size() == 3) reversed = row[0] + "\t" + row[1] + "\t" + row[2] + "\n" + reversed;
  }
  write_bytes("jobs.tsv", reversed);
  const ProcessResult result = run_batch({"jobs.tsv", "--resume", "--report", "-"});
  CHECK(result.exit_code == 0);
  CHECK(place.wrong_outputs().empty());
  const Json totals = parse_report("batch-report", result.out)["totals"];
  constexpr std::size_t kExpected = 2 + 7;  // seven of sixteen products read operand 3
  CHECK(totals["done"] == kExpected);
  CHECK(totals["done_before"] == num_jobs - kExpected);
}

TEST_CASE("shards are disjoint and complete, and touch no file of others") {
  BatchPlace place;
  place.write_list();
  std::multiset<std::string> all;
  for (int shard = 1; shard <= 3; ++shard) {
    const ProcessResult result = run_batch({"jobs.tsv", "--dry-run", "--shard", std::to_string(shard) + "/3"});
    CHECK(result.exit_code == 0);
    for (const Names& row : table_of(result.out)) all.insert(row.at(2));
  }
  CHECK(all.size() == 16);
  CHECK(std::set<std::string>(all.begin(), all.end()).size() == 16);
  // Job 1 reads the file that is missing; only its shard minds.
  write_bytes("jobs.tsv", "none.bin\t1.bin\tx.bin\n" + bytes_of("jobs.tsv"));
  CHECK(run_batch({"jobs.tsv", "--shard", "1/2"}).exit_code == 66);
  CHECK(run_batch({"jobs.tsv", "--shard", "2/2"}).exit_code == 0);
}

TEST_CASE("all shards at once, each with a log of its own; /dev/null is never done") {
  BatchPlace place;
  const std::size_t num_jobs = place.write_list();
  std::vector<std::unique_ptr<Process>> tasks;
  for (int task = 0; task < 3; ++task) {
    const std::string shard = std::to_string(task + 1) + "/3";
    tasks.push_back(std::make_unique<Process>(batch_words({"jobs.tsv", "--shard", shard})));
  }
  for (const auto& task : tasks) CHECK(task->wait().exit_code == 0);
  CHECK(place.wrong_outputs().empty());
  write_bytes("jobs.tsv", bytes_of("jobs.tsv") + "1.bin\t2.bin\t/dev/null\n2.bin\t1.bin\t/dev/null\n");
  for (int run = 0; run < 2; ++run) {
    const Json totals =
        parse_report("batch-report", run_batch({"jobs.tsv", "--resume", "--report", "-"}).out)["totals"];
    CHECK(totals["done_before"] == num_jobs);
    CHECK(totals["done"] == 2);
  }
}

TEST_CASE("standard input is a list as any other") {
  BatchPlace place(2);
  const std::string list = "1.bin\t2.bin\tx.bin\n# comment\n2.bin\t1.bin\tz.bin";
  ProcessResult result = run_batch_on(list, "-");
  CHECK(result.exit_code == 0);
  CHECK(result.out.find("2 jobs: 2 done, 0 failed") != std::string::npos);
  CHECK_FALSE(fs::exists("-.log"));
  CHECK(run_batch_on(list, "- --log done.log").exit_code == 0);
  CHECK(run_batch_on(list, "- --log done.log --resume").out.find("2 done before") != std::string::npos);
  result = run_batch_on(list + "\nbad line\n1.bin\tnone.bin\ty.bin\n", "-");
  CHECK(result.exit_code == 65);
  CHECK(result.err.find("standard input:4: has 1 column") != std::string::npos);
  CHECK(run_batch_on("# nothing to do", "-").exit_code == 0);
  CHECK(run_batch_on("\xEF\xBB\xBF" + list, "-").exit_code == 0);  // a byte order mark
}

TEST_CASE("failures are listed, and run again by --resume") {
  BatchPlace place;
  const std::size_t num_jobs = place.write_list();
  write_bytes("bad.bin", "no matrix");
  write_bytes("jobs.tsv", bytes_of("jobs.tsv") + "1.bin\tbad.bin\tx.bin\n");
  ProcessResult result = run_batch({"jobs.tsv"});
  CHECK(result.exit_code == 1);
  CHECK(result.err.find("jobs.tsv:18: failed (65): ") != std::string::npos);
  CHECK(place.wrong_outputs().empty());
  result = run_batch({"jobs.tsv", "--resume", "--report", "-"});
  CHECK(result.exit_code == 1);
  CHECK(parse_report("batch-report", result.out)["totals"]["failed"] == 1);
  CHECK(parse_report("batch-report", result.out)["totals"]["done_before"] == num_jobs);
  fs::copy_file("2.bin", "bad.bin", fs::copy_options::overwrite_existing);
  result = run_batch({"jobs.tsv", "--resume"});
  CHECK(result.exit_code == 0);
  CHECK(fs::exists("x.bin"));
}

TEST_CASE("a job that kills its worker fails alone, and so does one that breaks the device") {
  for (const std::string kind : {"kill", "device"}) {
    BatchPlace place;
    const std::size_t num_jobs = place.write_list();
    const ProcessResult result =
        run_process(faulty_batch_words({"jobs.tsv", "--report", "-"}), with_fault(kind + ":c23-0"));
    INFO(kind << ": " << result.err);
    CHECK(result.exit_code == 1);
    CHECK(place.wrong_outputs() == Names{"c23-0.bin"});
    CHECK(place.unexpected_files().empty());
    const Json report = parse_report("batch-report", result.out);
    CHECK(report["totals"]["done"] == num_jobs - 1);
    CHECK(report["totals"]["failed"] == 1);
    for (const Json& job : report["jobs"]) CHECK(job["attempts"] == (job["state"] == "failed" ? 3 : 1));
    CHECK(run_batch({"jobs.tsv", "--resume"}).exit_code == 0);
    CHECK(place.wrong_outputs().empty());
  }
}

TEST_CASE("a job over its time fails, stopped or with its worker, and others do not suffer") {
  for (const std::string kind : {"slow", "hang"}) {
    BatchPlace place;
    place.write_list();
    // The others may take as long as a busy machine lets them.
    std::string list = bytes_of("jobs.tsv");
    list.insert(list.find("c23-0.bin") + 9, "\ttimeout=0.3");
    write_bytes("jobs.tsv", list);
    const ProcessResult result = run_process(faulty_batch_words({"jobs.tsv"}), with_fault(kind + ":c23-0"));
    INFO(kind << ": " << result.err);
    CHECK(result.exit_code == 1);
    CHECK(place.wrong_outputs() == Names{"c23-0.bin"});
    CHECK(result.err.find("took longer than its timeout of 0.3 s") != std::string::npos);
  }
}

TEST_CASE("jobs may have kernels, verification and options of their own") {
  BatchPlace place;
  write_bytes("jobs.tsv",
              "1.bin\t2.bin\tx.bin\tkernel=reference\tverify=10\tdurable=1\n1.bin\t2.bin\ty.bin\tkernel=row-merge\n");
  const ProcessResult result = run_batch({"jobs.tsv", "--report", "-"});
  CHECK(result.exit_code == 0);
  const Json jobs = parse_report("batch-report", result.out)["jobs"];
  CHECK(jobs[0]["kernel"] == "reference");
  CHECK(jobs[1]["kernel"] == "row-merge");
  CHECK(bytes_of("x.bin") == bytes_of("y.bin"));
  write_bytes("jobs.tsv", "1.bin\t2.bin\tx.bin\tno-clobber=1\n");
  CHECK(run_batch({"jobs.tsv"}).exit_code == 1);
}

TEST_CASE("standard streams that are closed are no other file") {
  BatchPlace place(2);
  place.write_list();
  const auto run = [](const std::string& rest) {
    const ProcessOptions soon{.env = {}, .folder = {}, .timeout = std::chrono::seconds(20)};
    return run_process({"/bin/sh", "-c", "exec " SPMM_BIN_DIR "/spmm-batch " + rest}, soon);
  };
  CHECK(run("jobs.tsv >&- 2> err").exit_code == 74);  // the table is lost
  CHECK(bytes_of("err").starts_with("spmm-batch: error: standard output: writing failed"));
  CHECK(place.wrong_outputs().empty());
  const std::string log = bytes_of("jobs.tsv.log");
  CHECK(std::count(log.begin(), log.end(), '\n') == 4);  // a line for each job, nothing else
  CHECK(run("jobs.tsv --quiet <&- >&- 2>&-").exit_code == 0);
  const ProcessResult feed = run("- <&-");
  CHECK_FALSE(feed.timed_out);
  CHECK(feed.exit_code == 74);
  CHECK(feed.err.starts_with("spmm-batch: error: standard input: Bad file descriptor"));
}

TEST_CASE("a worker that can start no thread runs its jobs by itself") {
  if (!kForksWithThreads) {
    WARN("not with this sanitizer or emulator");
    return;
  }
  BatchPlace place(2);
  place.write_list();
  fs::permissions(".", fs::perms::all);
  for (const unsigned limit : {3u, 4u}) {  // the test, the supervisor and its worker are three
    const auto run = [] { return run_batch({"jobs.tsv", "--log", "/dev/null"}).exit_code; };
    CHECK(exit_status_under_thread_limit(limit, run) == 0);
    CHECK(place.wrong_outputs().empty());
  }
}

TEST_CASE("a working folder that was deleted is said") {
  const BatchPlace place(2);
  const fs::path list = fs::current_path() / "jobs.tsv";
  write_bytes(list, "1.bin\t2.bin\tx.bin\n");
  const auto run = [](const std::string& arguments) {
    return run_process(
        {"/bin/sh", "-c", "mkdir gone; cd gone; rmdir ../gone; exec " SPMM_BIN_DIR "/spmm-batch " + arguments});
  };
  for (const std::string& arguments : {std::string("jobs.tsv"), std::string("-"), list.string() + " --report r.json"}) {
    const ProcessResult result = run(arguments);
    INFO(arguments << ": " << result.err);
    CHECK(result.exit_code == 66);
    CHECK(result.err.find("working folder: is not there any more") != std::string::npos);
  }
  CHECK(run(list.string()).exit_code == 0);
  CHECK(fs::exists("x.bin"));
}
