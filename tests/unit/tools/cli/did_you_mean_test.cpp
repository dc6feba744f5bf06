// Suggestions for misspelt words and variables; numbers with prefixes; space on a disk.
#include "cli/options/did_you_mean.hpp"

#include <string>
#include <vector>

#include "base/text.hpp"
#include "cli/free_space.hpp"
#include "cli/options/variables.hpp"
#include "support/catch.hpp"

namespace {

using namespace spmm;
using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("edit distance: insert, remove, change, swap", "[tools][program]") {
  CHECK(cli::edit_distance("", "") == 0);
  CHECK(cli::edit_distance("threads", "threads") == 0);
  CHECK(cli::edit_distance("thread", "threads") == 1);
  CHECK(cli::edit_distance("tthreads", "threads") == 1);
  CHECK(cli::edit_distance("thraeds", "threads") == 1);
  CHECK(cli::edit_distance("treats", "threads") == 2);
  CHECK(cli::edit_distance("", "abc") == 3);
}

TEST_CASE("the nearest word is near, or the only one with that beginning", "[tools][program]") {
  const Words known = {"memory-limit", "kernel", "threads", "plan", "parts", "progress"};
  CHECK(cli::nearest_word("memory_limit", known) == "memory-limit");
  CHECK(cli::nearest_word("mem", known) == "memory-limit");
  CHECK(cli::nearest_word("kernle", known) == "kernel");
  CHECK(cli::nearest_word("part", known) == "parts");
  CHECK(cli::nearest_word("p", known).empty());
  CHECK(cli::nearest_word("quite", known).empty());
  CHECK(cli::nearest_word("x", {}).empty());
  CHECK(cli::suggestion("thread", known, "--") == ", did you mean --threads?");
  CHECK(cli::suggestion("bogus", known, "--").empty());
}

TEST_CASE("variables that are nearly options are warned of, those of others are not", "[tools][program]") {
  const Words options = {"threads", "memory-limit", "quiet", "n", "parts"};
  const auto warned = [&](const std::string& variable) {
    const Words lines = cli::variable_warnings({"HOME=/", variable}, options);
    return lines.empty() ? "" : lines.front();
  };
  CHECK(warned("SPMM_THREAD=2") ==
        "the variable SPMM_THREAD is not known and has no effect, did you mean SPMM_THREADS?");
  CHECK(warned("SPMM_MEMORYLIMIT=2G").find("SPMM_MEMORY_LIMIT?") != std::string::npos);
  CHECK(warned("SPMM_MEM_LIMIT=2G").empty());  // three letters are missing
  CHECK(warned("SPMM_QUITE=1").find("SPMM_QUIET?") != std::string::npos);
  for (const char* fine : {"SPMM_THREADS=2", "SPMM_RUNS=3", "SPMM_SEED=1", "SPMM_TEST_THREAD=1", "SPMM_REQUIRE_GPU=1",
                           "SPMM_MPI_RECORDS=sent", "SPMM_BATCH_FAULT=x", "SPMM_CPU_ISA=avx2", "SPMM_M=1",
                           "SPMM_=", "SPMM_SOMETHING_ELSE=1", "THREAD=2"}) {
    INFO(fine);
    CHECK(warned(fine).empty());
  }
}

TEST_CASE("numbers with a prefix for their unit", "[tools][program]") {
  CHECK(human_number(0) == "0 ");
  CHECK(human_number(12.34) == "12.34 ");
  CHECK(human_number(1500) == "1.5 k");
  CHECK(human_number(2.5e8) == "250 M");
  CHECK(human_number(1.2e9) == "1.2 G");
  CHECK(human_number(3e15) == "3 P");
  CHECK(human_number(3e20) == "3e+05 P");
}

TEST_CASE("what is expected is compared with what is free", "[tools][program]") {
  CHECK(cli::space_problem(100, 100, "/x").empty());
  CHECK(cli::space_problem(2'000'000'000, 1'000'000'000, "/x") ==
        "about 2 GB are to be expected of the result, and /x has 1 GB free");
  CHECK_FALSE(cli::free_bytes_for("/dev/null"));
  CHECK_FALSE(cli::free_bytes_for("/no/such/folder/c.bin"));
  CHECK(cli::free_bytes_for("/tmp/c.bin"));
  CHECK(cli::free_bytes_for("c.bin"));
}
