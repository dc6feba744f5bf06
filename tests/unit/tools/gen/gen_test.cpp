// spmm-gen: what it promises about the files that it writes, and what it refuses.
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "test_paths.hpp"
#include "tools/gen/gen.hpp"
#include "unit/tools/tool_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;

using Blocks = std::map<BlockIndex, std::vector<std::uint16_t>>;

/// Writes a file with spmm-gen and reads it back; read_matrix() checks indices and refuses a block twice.
BlockMatrix generate(const std::string& path, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {path, "-q"});
  const ProcessResult result = run_tool("gen", arguments);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  REQUIRE(result.out.empty());
  return read_matrix(path);
}

Blocks blocks_of(const BlockMatrix& matrix) {
  Blocks blocks;
  const std::size_t size = std::size_t{matrix.m} * matrix.m;
  for (std::size_t b = 0; b < matrix.index.size(); ++b) {
    blocks[matrix.index[b]] = {matrix.block(b), matrix.block(b) + size};
  }
  return blocks;
}

}  // namespace

TEST_CASE("gen: each pattern has the same blocks in every order and for every number of threads", "[tools][gen]") {
  const TemporaryFolder folder;
  for (const std::string& pattern : tools::pattern_names()) {
    INFO(pattern);
    const std::string k = pattern == "diagonal" ? "150" : pattern == "arrow" ? "500" : "700";
    const auto with = [&](std::vector<std::string> more) {
      more.insert(more.begin(),
                  {"--n", "600", "--m", "3", "--seed", "7", "--max-value", "900", "--pattern", pattern, "--k", k});
      return more;
    };
    const BlockMatrix matrix = generate(folder.file("a"), with({"--threads", "1"}));
    CHECK(std::to_string(matrix.index.size()) == k);
    CHECK_FALSE(std::is_sorted(matrix.index.begin(), matrix.index.end()));
    CHECK(*std::max_element(matrix.values.begin(), matrix.values.end()) <= 900);
    generate(folder.file("b"), with({"--threads", "3"}));
    CHECK(bytes_of(folder.file("a")) == bytes_of(folder.file("b")));
    const BlockMatrix sorted = generate(folder.file("c"), with({"--order", "sorted", "--threads", "2"}));
    CHECK(std::is_sorted(sorted.index.begin(), sorted.index.end()));
    CHECK(blocks_of(sorted) == blocks_of(matrix));
  }
}

TEST_CASE("gen: the same bytes on every machine", "[tools][gen]") {
  const TemporaryFolder folder;
  CHECK(generate(folder.file("a"), {"--n", "8", "--m", "2", "--k", "3"}) ==
        matrix_of<std::uint16_t>(8, 2, {{2, 3}, {3, 1}, {2, 2}},
                                 {1699, 1964, 1690, 1673, 1519, 724, 1451, 788, 1143, 543, 1812, 1582}));
}

TEST_CASE("gen: a full matrix, an empty one, one block", "[tools][gen]") {
  const TemporaryFolder folder;
  const auto num_blocks = [&](std::vector<std::string> options) {
    return generate(folder.file("a"), std::move(options)).index.size();
  };
  for (const char* order : {"sorted", "shuffled"}) {
    CHECK(num_blocks({"--n", "64", "--m", "8", "--k", "64", "--order", order}) == 64);
    CHECK(num_blocks({"--n", "64", "--m", "8", "--k", "0", "--order", order}) == 0);
  }
  CHECK(num_blocks({"--n", "64", "--m", "64", "--k", "1", "--pattern", "heavy-row"}) == 1);
  CHECK(num_blocks({"--n", "4294967295", "--m", "1", "--k", "9"}) == 9);
  CHECK(num_blocks({"--n", "200", "--m", "2", "--k", "688", "--pattern", "banded", "--bandwidth", "3"}) == 688);
}

TEST_CASE("gen: memory stays far below the file", "[tools][gen]") {
  const TemporaryFolder folder;
  for (const char* order : {"shuffled", "sorted"}) {
    const ProcessResult result = run_tool(
        "gen", {folder.file("a"), "--n", "32768", "--m", "8", "--k", "2e6", "--order", order, "--threads", "2"});
    CHECK(result.exit_code == 0);
    CHECK(stayed_below(result, 80'000'000));
    CHECK(std::filesystem::file_size(folder.file("a")) == 272'000'012);
    CHECK(result.out.find("2000000 blocks (uniform, seed 1), 272 MB in ") != std::string::npos);
  }
}

TEST_CASE("gen: what cannot be made is refused and nothing is written", "[tools][gen]") {
  const TemporaryFolder folder;
  const std::string out = folder.file("a");
  const std::vector<std::string> good = {out, "--n", "8", "--m", "2"};
  struct Refusal {
    std::vector<std::string> more;  // behind n and m
    std::string place;
  };
  const std::vector<Refusal> refusals = {
      {{}, "--k: is missing"},
      {{"--k", "17"}, "give at most 16"},
      {{"--k", "4294967296"}, "--k: "},
      {{"--k", "5", "--pattern", "diagonal"}, "has 4 places"},
      {{"--k", "1", "--pattern", "spiral"}, "--pattern"},
      {{"--k", "1", "--bandwidth", "1"}, "--bandwidth: "},
      {{"--k", "1", "--pattern", "banded", "--bandwidth", "4"}, "give at most 3"},
      {{"--k", "1", "--group", "2"}, "--group: "},
      {{"--k", "1", "--pattern", "block-diagonal", "--group", "5"}, "give 1 to 4"},
      {{"--k", "1", "--max-value", "65536"}, "from 0 to 65535"},
      {{"--k", "1", "--zero-blocks", "2"}, "--zero-blocks"},
      {{"--k", "1", "--order", "random"}, "give shuffled or sorted"},
      {{"--k", "1", "--threads", "0"}, "--threads"},
      {{"--k", "1", "--seed", "-1"}, "--seed"},
      {{out, "--k", "1"}, "unexpected argument"},
      {{"--n", "8", "--k", "1"}, "--n: is given more than once"},
  };
  const auto check = [&](const std::vector<std::string>& arguments, int code, const std::string& place) {
    const ProcessResult result = run_tool("gen", arguments);
    INFO(result.err);
    CHECK(result.exit_code == code);
    CHECK(result.out.empty());
    CHECK(result.err.rfind("spmm-gen: error: ", 0) == 0);
    CHECK(result.err.find(place) != std::string::npos);
    CHECK(std::filesystem::is_empty(folder.path()));
  };
  for (const Refusal& refusal : refusals) {
    std::vector<std::string> arguments = good;
    arguments.insert(arguments.end(), refusal.more.begin(), refusal.more.end());
    check(arguments, 2, refusal.place);
  }
  check({}, 2, "output file is missing");
  check({out}, 2, "--n: is missing");
  check({out, "--n", "9", "--m", "2", "--k", "1"}, 2, "give 8 or 10");
  check({out, "--n", "130", "--m", "65", "--k", "0"}, 2, "from 1 to 64");
  check({out, "--n", "200", "--m", "2", "--k", "571", "--pattern", "stencil-7"}, 2, "give at most 570 blocks");
  check({out, "--n", "4294967232", "--m", "64", "--k", "4e9"}, 73, "the file takes 32.8 TB");
  check({folder.file("no/such/folder"), "--n", "8", "--m", "2", "--k", "1"}, 73, "no/such");
  check({"/dev/full", "--n", "8", "--m", "2", "--k", "1"}, 74, "/dev/full");
}

TEST_CASE("gen: a signal ends it cleanly", "[tools][gen]") {
  const TemporaryFolder folder;
  for (const char* order : {"shuffled", "sorted"}) {
    Process process({SPMM_BIN_DIR "/spmm-gen", folder.file("a"), "--n", "65536", "--m", "8", "--k", "60e6", "--order",
                     order, "--threads", "1"});
    process.wait_until_handled(SIGTERM);
    process.send_signal(SIGTERM);
    const ProcessResult result = process.wait();
    CHECK(result.exit_code == 75);
    CHECK(std::filesystem::is_empty(folder.path()));
  }
}
