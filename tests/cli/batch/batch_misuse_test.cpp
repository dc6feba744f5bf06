// Wrong command lines and lists: exit code and message, and nothing is run.

#include <filesystem>

#include "cli/batch/batch_place.hpp"
#include "spmm/multiply.hpp"
#include "support/catch.hpp"

namespace {

using namespace spmm::test;
namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr const char* kGood = "1.bin\t2.bin\tx.bin\n";

}  // namespace

TEST_CASE("wrong command lines") {
  struct Case {
    Words arguments;
    int exit_code;
    std::string message;
  };
  const std::vector<Case> table = {
      {{}, 2, "list of jobs"},
      {{"good.tsv", "more"}, 2, "\"more\""},
      {{"--frobnicate", "good.tsv"}, 2, "--frobnicate"},
      {{"--backend", "tpu", "good.tsv"}, 2, "\"tpu\""},
      {{"--backend", "cuda", "--kernel", "row-merge", "good.tsv"}, spmm::has_backend(spmm::Backend::cuda) ? 2 : 69, ""},
      {{"--threads", "5000", "good.tsv"}, 2, "from 0 to 4096"},
      {{"--memory-limit", "0", "good.tsv"}, 2, "--memory-limit: "},
      {{"--in-flight", "0", "good.tsv"}, 2, "--in-flight: "},
      {{"--verify", "x", "good.tsv"}, 2, "--verify: \"x\""},
      {{"--on-saturation", "warn", "good.tsv"}, 2, "--on-saturation: "},
      {{"--timeout", "1x", "good.tsv"}, 2, "--timeout: \"1x\""},
      {{"--grace", "never", "good.tsv"}, 2, "--grace: "},
      {{"--shard", "3/2", "good.tsv"}, 2, "--shard: "},
      {{"--shard", "auto", "good.tsv"}, 2, "--shard: \"auto\""},
      {{"--resume", "-"}, 2, "standard input"},
      {{"--log=", "good.tsv"}, 2, "--log"},
      {{"none.tsv"}, 66, "none.tsv: "},
      {{"."}, 66, "directory"},
      {{"empty.tsv"}, 65, "empty.tsv: "},
      {{"-"}, 65, "standard input: "},
      {{"--log", "none/log", "good.tsv"}, 73, "none/log: "},
      {{"--report", "none/r.json", "good.tsv"}, 73, "none/r.json"},
  };
  const BatchPlace place;
  write_bytes("good.tsv", kGood);
  write_bytes("empty.tsv", "");
  const Words before = names_in(".");
  for (const Case& c : table) {
    const ProcessResult result = run_batch(c.arguments);
    std::string words;
    for (const std::string& word : c.arguments) words += word + " ";
    INFO(words << "-> " << result.exit_code << " " << result.err);
    CHECK(result.exit_code == c.exit_code);
    CHECK(result.err.find(c.message) != std::string::npos);
    CHECK(result.err.starts_with("spmm-batch: error: "));
    CHECK(names_in(".") == before);
  }
}

TEST_CASE("malformed lists run nothing") {
  struct Case {
    std::string list;
    int exit_code;
    std::string message;
  };
  const std::string good = kGood;
  const std::vector<Case> table = {
      {good + "1.bin 2.bin y.bin\n", 65, "bad.tsv:2: has 1 column"},
      {good + "1.bin\t2.bin\tx.bin\n", 65, "bad.tsv:2: "},
      {good + "1.bin\t2.bin\t1.bin\n", 65, "line 1"},
      {good + "1.bin\tx.bin\ty.bin\n", 65, "line 2"},
      {good + "1.bin\tnone.bin\ty.bin\n", 66, "bad.tsv:2: "},
      {good + "1.bin\t2.bin\tnone/y.bin\n", 73, "mkdir -p"},
      {good + "1.bin\t.\ty.bin\n", 66, "bad.tsv:2: "},
      {good + "1.bin\t2.bin\tfolder\n", 73, "directory"},
      {good + "1.bin\t2.bin\ty.csv\n", 65, "y.csv"},
      {good + "1.bin\t2.bin\tlink.bin\n", 65, "link.bin"},
      {"\xFF\xFEx\n", 65, "bad.tsv:1: has 1 column"},
  };
  const BatchPlace place;
  fs::create_directory("folder");
  fs::create_symlink("2.bin", "link.bin");
  for (const Case& c : table) {
    write_bytes("bad.tsv", c.list);
    const Words before = names_in(".");
    const ProcessResult result = run_batch({"bad.tsv"});
    INFO(c.list << "-> " << result.exit_code << " " << result.err);
    CHECK(result.exit_code == c.exit_code);
    CHECK(result.err.find(c.message) != std::string::npos);
    CHECK(result.err.find("nothing was run") != std::string::npos);
    CHECK(names_in(".") == before);
  }
}

TEST_CASE("no job or report may have a file that the run has for itself") {
  struct Case {
    Words arguments;
    std::string list;
    int exit_code;
    std::string message;
  };
  const std::string good = kGood;
  const std::vector<Case> table = {
      {{"--report", "1.bin"}, good, 65, "1.bin is the file of --report"},
      {{"--report", "./x.bin"}, good, 65, "x.bin is the file of --report"},
      {{"--report", "link"}, good, 65, "2.bin is the file of --report"},
      {{"--report", "jobs.tsv"}, good, 2, "--report: jobs.tsv is the list"},
      {{"--log", "here/jobs.tsv"}, good, 2, "--log: here/jobs.tsv is the list"},
      {{"--log", "./x.bin"}, good, 65, "x.bin is the file of --log"},
      {{"--log", "here/x.bin"}, good, 65, "x.bin is the file of --log"},
      {{"--log", "later"}, "1.bin\t2.bin\tto-later\n", 65, "to-later is the file of --log"},
      {{"--log", "to-later"}, "1.bin\t2.bin\tlater\n", 65, "later is the file of --log"},
      {{}, "1.bin\t2.bin\tjobs.tsv\n", 65, "jobs.tsv is the list"},
      {{}, "1.bin\t2.bin\tjobs.tsv.log\n", 65, "jobs.tsv.log is the file of --log"},
  };
  const BatchPlace place;
  fs::create_symlink("2.bin", "link");
  fs::create_symlink("later", "to-later");
  fs::create_directory_symlink(".", "here");
  for (const Case& c : table) {
    write_bytes("jobs.tsv", c.list);
    const Words before = names_in(".");
    const std::string operands = bytes_of("1.bin") + bytes_of("2.bin");
    Words words = c.arguments;
    words.emplace_back("jobs.tsv");
    const ProcessResult result = run_batch(words);
    INFO((c.arguments.empty() ? "" : c.arguments[1]) << " -> " << result.exit_code << " " << result.err);
    CHECK(result.exit_code == c.exit_code);
    CHECK(result.err.find(c.message) != std::string::npos);
    CHECK(names_in(".") == before);
    CHECK(bytes_of("jobs.tsv") == c.list);
    CHECK(bytes_of("1.bin") + bytes_of("2.bin") == operands);
    fs::remove("x.bin");
  }
  // Links without an end are told, not followed.
  fs::create_symlink("loop", "loop");
  write_bytes("jobs.tsv", "1.bin\t2.bin\tloop\n");
  CHECK(run_batch({"jobs.tsv"}).exit_code == 73);
}

TEST_CASE("a forced GPU that is not there is said at once") {
  const BatchPlace place;
  write_bytes("good.tsv", kGood);
  const ProcessOptions no_gpu{.env = {{"CUDA_VISIBLE_DEVICES", ""}}, .folder = {}};
  const ProcessResult all = run_batch({"good.tsv", "--backend", "cuda"}, no_gpu);
  CHECK(all.exit_code == 69);
  write_bytes("one.tsv", std::string(kGood) + "1.bin\t2.bin\ty.bin\tbackend=cuda\n");
  const ProcessResult one = run_batch({"one.tsv"}, no_gpu);
  CHECK(one.exit_code == 1);
  CHECK(one.err.find("one.tsv:2: failed (69): ") != std::string::npos);
  CHECK(fs::exists("x.bin"));
}

TEST_CASE("a second run with one log is refused") {
  const BatchPlace place;
  write_bytes("good.tsv", kGood);
  Process first(faulty_batch_words({"good.tsv"}), with_fault("slow:x.bin"));
  while (children_of(first.pid()).empty()) {
  }
  const ProcessResult second = run_batch({"good.tsv", "--resume"});
  CHECK(second.exit_code == 73);
  CHECK(second.err.find("good.tsv.log: the log is in use by another run") != std::string::npos);
  CHECK(run_batch({"good.tsv", "--log", "/dev/null"}).exit_code == 0);
  CHECK(first.wait().exit_code == 0);
}
