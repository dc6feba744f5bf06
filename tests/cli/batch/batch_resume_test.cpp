// What --resume takes for done: the same inputs, the output that the run wrote, and as much of a promise as is asked for.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/batch/batch_place.hpp"
#include "support/catch.hpp"
#include "support/json_schema.hpp"

namespace {

using namespace spmm::test;
namespace fs = std::filesystem;
using Json = nlohmann::json;

Json resumed(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"jobs.tsv", "--resume", "--report", "-"};
  words.insert(words.end(), more.begin(), more.end());
  const ProcessResult result = run_batch(words);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return parse_report("batch-report", result.out)["totals"];
}

}  // namespace

TEST_CASE("a job that was not verified is run again where the list asks for it, and never the other way round") {
  const BatchPlace place(2);
  write_bytes("jobs.tsv", "1.bin\t2.bin\tx.bin\n2.bin\t1.bin\ty.bin\tverify=full\n");
  REQUIRE(run_batch({"jobs.tsv"}).exit_code == 0);
  CHECK(resumed({})["done_before"] == 2);
  CHECK(resumed({"--verify", "full"})["done"] == 1);
  CHECK(resumed({"--verify", "full"})["done_before"] == 2);
  CHECK(resumed({"--verify", "5"})["done_before"] == 2);
  CHECK(resumed({"--kernel", "reference"})["done_before"] == 2);  // the same bytes
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
  CHECK(resumed({})["done"] == 1);
  REQUIRE(bytes_of("c.bin") != expected);
  REQUIRE(bytes_of("c.bin").size() == expected.size());
  write_bytes("jobs.tsv", first);
  CHECK(resumed({})["done"] == 1);
  CHECK(bytes_of("c.bin") == expected);
  CHECK(resumed({})["done_before"] == 1);
}
