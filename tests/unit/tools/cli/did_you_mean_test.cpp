// Suggestions for misspelt words and variables; numbers with prefixes; space on a disk.
#include "cli/options/did_you_mean.hpp"

#include <string>
#include <vector>

#include "base/text.hpp"
#include "cli/run_length.hpp"
#include "support/catch.hpp"

namespace {

using namespace spmm;
using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("the nearest word is near, or the only one with that beginning", "[tools][program]") {
  const Words known = {"memory-limit", "kernel", "threads", "plan", "parts", "progress"};
  CHECK(cli::nearest_word("memory_limit", known) == "memory-limit");
  CHECK(cli::nearest_word("mem", known) == "memory-limit");
  CHECK(cli::nearest_word("kernle", known) == "kernel");
  CHECK(cli::nearest_word("part", known) == "parts");
  CHECK(cli::nearest_word("p", known).empty());
  CHECK(cli::nearest_word("quite", known).empty());
  CHECK(cli::nearest_word("x", {}).empty());
  CHECK(cli::nearest_word("j", known) == "threads");
  CHECK(cli::nearest_word("gpu", {"auto", "cuda", "cpu"}) == "cuda");
  CHECK(cli::nearest_word("gpu", {"auto", "cpu"}) == "cpu");
  CHECK(cli::suggestion("thread", known, "--") == ", did you mean --threads?");
  CHECK(cli::suggestion("bogus", known, "--").empty());
}

TEST_CASE("what is free is known of disks alone", "[tools][program]") {
  CHECK_FALSE(cli::free_bytes_for("/dev/null"));
  CHECK_FALSE(cli::free_bytes_for("/no/such/folder/c.bin"));
  CHECK(cli::free_bytes_for("/tmp/c.bin"));
  CHECK(cli::free_bytes_for("c.bin"));
}
