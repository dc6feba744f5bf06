// What --resume takes for done: an equal line, the same inputs, and the output that the run wrote.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/batch/batch_place.hpp"
#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "support/json_schema.hpp"

namespace {

using namespace spmm::test;
namespace fs = std::filesystem;
using Json = nlohmann::json;

Json resumed_with(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"jobs.tsv", "--resume", "--report", "-"};
  words.insert(words.end(), more.begin(), more.end());
  const ProcessResult result = run_batch(words);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return parse_report("batch-report", result.out)["totals"];
}

}  // namespace

TEST_CASE("a job of another promise is run again, one of another kernel is not") {
  const BatchPlace place(2);
  write_bytes("jobs.tsv", "1.bin\t2.bin\tx.bin\n2.bin\t1.bin\ty.bin\tverify=full\n");
  REQUIRE(run_batch({"jobs.tsv"}).exit_code == 0);
  CHECK(resumed_with({})["done_before"] == 2);
  CHECK(resumed_with({"--kernel", "reference"})["done_before"] == 2);  // the same bytes
  CHECK(resumed_with({"--verify", "full"})["done"] == 1);
  CHECK(resumed_with({"--verify", "full"})["done_before"] == 2);
  CHECK(resumed_with({"--durable"})["done"] == 2);
}

TEST_CASE("an output that another job has replaced is made again, though its size is the same") {
  const BatchPlace place(1);
  // A times itself gives as many bytes whatever its values are.
  fs::copy_file("1.bin", "2.bin");
  std::string other = bytes_of("2.bin");
  for (std::size_t at = 20; at < 52; ++at) other[at] = '\1';  // the elements of the first block
  write_bytes("2.bin", other);
  const std::string first = "1.bin\t1.bin\tc.bin\n";
  const std::string second = "2.bin\t2.bin\tc.bin\n";
  write_bytes("jobs.tsv", first);
  REQUIRE(run_batch({"jobs.tsv"}).exit_code == 0);
  const std::string expected = bytes_of("c.bin");
  write_bytes("jobs.tsv", second);
  CHECK(resumed_with({})["done"] == 1);
  REQUIRE(bytes_of("c.bin") != expected);
  REQUIRE(bytes_of("c.bin").size() == expected.size());
  write_bytes("jobs.tsv", first);
  CHECK(resumed_with({})["done"] == 1);
  CHECK(bytes_of("c.bin") == expected);
  CHECK(resumed_with({})["done_before"] == 1);
}

TEST_CASE("tasks of an array write reports of their own") {
  BatchPlace place(2);
  place.write_list();
  const auto run_task = [](const std::string& shard) {
    const ProcessResult result = run_batch({"jobs.tsv", "--shard", shard, "--resume", "--report", "r.json"});
    INFO(result.err);
    CHECK(result.exit_code == 0);
  };
  run_task("1/2");
  run_task("2/2");
  CHECK_FALSE(fs::exists("r.json"));
  std::vector<Json> first;
  for (const std::string name : {"r.1-of-2.json", "r.2-of-2.json"}) {
    first.push_back(parse_report("batch-report", bytes_of(name)));
    CHECK(first.back()["schema"] == 2);
    CHECK(first.back()["totals"]["done"] == 2);
  }
  fs::remove("c12-0.bin");  // the second of four jobs
  run_task("2/2");
  const Json again = parse_report("batch-report", bytes_of("r.2-of-2.json"));
  CHECK(again["totals"]["done"] == 1);
  CHECK(again["totals"]["done_before"] == 1);
  CHECK(parse_report("batch-report", bytes_of("r.1-of-2.json")) == first[0]);
}

TEST_CASE("elements at the limit: counted for each job and in all, and an error where the list says so") {
  const BatchPlace place(0);
  const std::vector<spmm::BlockIndex> all = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
  spmm::write_matrix("large.bin", {.n = 8, .m = 4, .index = all, .values = std::vector<std::uint16_t>(64, 65535)});
  spmm::write_matrix("small.bin", {.n = 8, .m = 4, .index = all, .values = std::vector<std::uint16_t>(64, 1)});
  const std::string list = "large.bin\tlarge.bin\tx.bin\nsmall.bin\tsmall.bin\ty.bin\n";
  write_bytes("jobs.tsv", list);
  const ProcessResult counted = run_batch({"jobs.tsv", "--report", "r.json"});
  CHECK(counted.exit_code == 0);
  CHECK(counted.out.find("\n64 elements at the limit 4294967295 in 1 job\n") != std::string::npos);
  const Json report = parse_report("batch-report", bytes_of("r.json"));
  CHECK(report["totals"]["saturated_elements"] == 64);
  CHECK(report["totals"]["saturated_jobs"] == 1);
  for (const Json& job : report["jobs"]) CHECK(job["saturated_elements"] == (job["line"] == 1 ? 64 : 0));
  // What saturated is not done for whom that is an error; what did not, is.
  const std::string before = bytes_of("x.bin");
  write_bytes("jobs.tsv", list + "large.bin\tlarge.bin\tz.bin\ton-saturation=report\n");
  const ProcessResult refused = run_batch({"jobs.tsv", "--resume", "--on-saturation", "error", "--report", "r.json"});
  INFO(refused.err);
  CHECK(refused.exit_code == 1);
  CHECK(refused.err.find("jobs.tsv:1: failed (76): ") != std::string::npos);
  CHECK(refused.err.find("64 elements are at the limit 4294967295") != std::string::npos);
  CHECK(refused.err.find("--on-saturation report") != std::string::npos);
  CHECK(bytes_of("x.bin") == before);
  CHECK(bytes_of("z.bin") == before);
  CHECK(parse_report("batch-report", bytes_of("r.json"))["totals"]["done"] == 2);
  CHECK(resumed_with({})["done"] == 1);  // of the other promise
  CHECK(resumed_with({})["done_before"] == 3);
}
