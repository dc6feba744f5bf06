// Shards as typed, and their files.
#include <string>

#include "spmm/error.hpp"
#include "support/catch.hpp"
#include "tools/batch/batch.hpp"

using namespace spmm;
using namespace spmm::batch;

TEST_CASE("--shard I/N") {
  CHECK(parse_shard("1/1", "--shard").count == 1);
  CHECK(parse_shard("3/8", "--shard").index == 2);
  CHECK(parse_shard("3/8", "--shard").count == 8);
  for (const char* bad : {"", "3", "/", "1/", "/2", "0/2", "3/2", "a/2", "1/0", "1/2/3", "-1/2", "auto"}) {
    INFO(bad);
    CHECK_THROWS_AS(parse_shard(bad, "--shard"), UsageError);
  }
}

TEST_CASE("each shard writes files of its own") {
  const Shard third{.index = 2, .count = 8};
  CHECK(file_of_shard("r.json", third) == "r.3-of-8.json");
  CHECK(file_of_shard("out.d/log", third) == "out.d/log.3-of-8");
  CHECK(file_of_shard("", third).empty());
  CHECK(file_of_shard("-", third) == "-");
  CHECK(file_of_shard("/dev/null", third) == "/dev/null");
  CHECK(file_of_shard("r.json", {}) == "r.json");
}
