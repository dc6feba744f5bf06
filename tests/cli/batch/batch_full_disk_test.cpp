// A disk that is full in the middle of a list, and has space again for --resume.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/batch/batch_place.hpp"
#include "support/catch.hpp"
#include "support/json_schema.hpp"
#include "test_paths.hpp"

namespace {

using namespace spmm::test;
namespace fs = std::filesystem;
using Json = nlohmann::json;

/// A script in a mount namespace of its own, where `out` is a disk of one megabyte.
ProcessResult run_on_small_disk(const std::string& script) {
  return run_process(
      {"/usr/bin/env", "unshare", "-m", "/bin/sh", "-c", "mount -t tmpfs -o size=1m none out || exit 77\n" + script});
}

}  // namespace

TEST_CASE("a full disk fails the jobs that do not fit, and --resume makes them") {
  BatchPlace place;
  const std::size_t num_jobs = place.write_list();
  std::string list = bytes_of("jobs.tsv");
  for (std::size_t at = list.find("\tc"); at != std::string::npos; at = list.find("\tc", at + 2)) {
    list.replace(at, 2, "\tout/c");
  }
  write_bytes("jobs.tsv", list);
  fs::create_directory("out");
  const std::string batch = SPMM_BIN_DIR "/spmm-batch jobs.tsv --quiet --report ";
  const ProcessResult result = run_on_small_disk(
      "head -c 900000 /dev/zero > out/filler\n" + batch + "full.json 2> err; echo $? > code\nrm out/filler\n" + batch +
      "freed.json --resume; echo $? > code2\nls -A out > names; cp out/* .\n");
  if (result.exit_code == 77 || !fs::exists("code")) {
    WARN("skipped: no file system can be mounted here: " << result.err);
    return;
  }
  INFO(bytes_of("err") << result.err);
  CHECK(bytes_of("code") == "1\n");
  const Json full = parse_report("batch-report", bytes_of("full.json"));
  const std::size_t done = full["totals"]["done"];
  const std::size_t failed = full["totals"]["failed"];
  CHECK(done > 0);
  CHECK(failed > 0);
  CHECK(done + failed == num_jobs);
  for (const Json& job : full["jobs"]) {
    if (job["state"] == "done") continue;
    CHECK(job["exit_code"] == 74);
    const std::string out = job["out"].get<std::string>();
    CHECK(bytes_of("err").find(out) != std::string::npos);  // listed with its reason
  }
  CHECK(bytes_of("err").find("failed (74): ") != std::string::npos);
  CHECK(bytes_of("err").find("No space left on device") != std::string::npos);

  CHECK(bytes_of("code2") == "0\n");
  const Json freed = parse_report("batch-report", bytes_of("freed.json"))["totals"];
  CHECK(freed["done_before"] == done);
  CHECK(freed["done"] == failed);
  CHECK(place.wrong_outputs().empty());
  std::string names = bytes_of("names");
  CHECK(static_cast<std::size_t>(std::count(names.begin(), names.end(), '\n')) == num_jobs);  // nothing else is left
}
