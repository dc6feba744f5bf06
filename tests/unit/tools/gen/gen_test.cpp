// spmm-gen: what it promises about the files that it writes, and what it refuses.
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "test_paths.hpp"
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

/// Blocks of one element, in order.
std::vector<std::pair<BlockIndex, std::uint16_t>> places_and_values(const BlockMatrix& matrix) {
  std::vector<std::pair<BlockIndex, std::uint16_t>> blocks;
  for (std::size_t b = 0; b < matrix.index.size(); ++b) blocks.emplace_back(matrix.index[b], matrix.values[b]);
  std::sort(blocks.begin(), blocks.end());
  return blocks;
}

struct PatternCase {
  std::string pattern;
  std::vector<std::string> options;
  bool (*allowed)(BlockIndex at);
};

constexpr std::uint32_t kNb = 200;

const std::vector<PatternCase>& pattern_cases() {
  static const std::vector<PatternCase> kCases = {
      {"uniform", {"--k", "5000"}, [](BlockIndex) { return true; }},
      {"diagonal", {"--k", "150"}, [](BlockIndex at) { return at.i == at.j; }},
      {"banded",
       {"--k", "1500", "--bandwidth", "5"},
       [](BlockIndex at) { return at.i <= at.j + 5 && at.j <= at.i + 5; }},
      {"power-law", {"--k", "900"}, [](BlockIndex) { return true; }},
      {"heavy-row", {"--k", "900"}, [](BlockIndex) { return true; }},
      {"heavy-column", {"--k", "900"}, [](BlockIndex) { return true; }},
      {"hub", {"--k", "900"}, [](BlockIndex) { return true; }},
      {"stencil-27", {"--k", "900"}, [](BlockIndex) { return true; }},
      {"rmat", {"--k", "900"}, [](BlockIndex) { return true; }},
      {"block-diagonal", {"--k", "700", "--group", "8"}, [](BlockIndex at) { return at.i / 8 == at.j / 8; }},
      {"arrow", {"--k", "500"}, [](BlockIndex at) { return at.i == 0 || at.j == 0 || at.i == at.j; }},
      {"saddle-point", {"--k", "900"}, [](BlockIndex at) { return at.i < 150 || at.j < 150; }},
  };
  return kCases;
}

}  // namespace

TEST_CASE("gen: each pattern keeps its promises in every order and for every number of threads", "[tools][gen]") {
  const TemporaryFolder folder;
  for (const PatternCase& c : pattern_cases()) {
    INFO(c.pattern);
    std::vector<std::string> arguments = {"--n", "600",         "--m", "3",         "--seed",
                                          "7",   "--max-value", "900", "--pattern", c.pattern};
    arguments.insert(arguments.end(), c.options.begin(), c.options.end());
    const auto with = [&](std::vector<std::string> more) {
      more.insert(more.begin(), arguments.begin(), arguments.end());
      return more;
    };
    const BlockMatrix matrix = generate(folder.file("a"), with({"--threads", "1"}));
    CHECK(matrix.n == 600);
    CHECK(matrix.m == 3);
    CHECK(std::to_string(matrix.index.size()) == c.options[1]);
    CHECK(std::all_of(matrix.index.begin(), matrix.index.end(), c.allowed));
    CHECK_FALSE(std::is_sorted(matrix.index.begin(), matrix.index.end()));
    CHECK(*std::max_element(matrix.values.begin(), matrix.values.end()) <= 900);

    generate(folder.file("b"), with({"--threads", "3"}));
    CHECK(content_of(folder.file("a")) == content_of(folder.file("b")));

    const BlockMatrix sorted = generate(folder.file("c"), with({"--order", "sorted", "--threads", "2"}));
    CHECK(std::is_sorted(sorted.index.begin(), sorted.index.end()));
    CHECK(blocks_of(sorted) == blocks_of(matrix));

    const BlockMatrix other = generate(folder.file("d"), with({"--order", "sorted", "--threads", "1"}));
    CHECK(other == sorted);
  }
}

TEST_CASE("gen: the same bytes on every machine", "[tools][gen]") {
  const TemporaryFolder folder;
  const BlockMatrix matrix = generate(folder.file("a"), {"--n", "8", "--m", "2", "--k", "3"});
  const BlockMatrix expected = matrix_of<std::uint16_t>(
      8, 2, {{2, 3}, {3, 1}, {2, 2}}, {1699, 1964, 1690, 1673, 1519, 724, 1451, 788, 1143, 543, 1812, 1582});
  CHECK(matrix == expected);
}

TEST_CASE("gen: many blocks in several buckets, all different, spread evenly", "[tools][gen]") {
  const TemporaryFolder folder;
  const BlockMatrix matrix = generate(folder.file("a"), {"--n", "1000", "--m", "1", "--k", "400e3"});
  const BlockMatrix sorted =
      generate(folder.file("b"), {"--n", "1000", "--m", "1", "--k", "400e3", "--order", "sorted"});
  CHECK(std::is_sorted(sorted.index.begin(), sorted.index.end()));
  CHECK(places_and_values(matrix) == places_and_values(sorted));
  std::vector<int> in_row(1000);
  std::vector<int> in_column(1000);
  std::array<int, 4> of_value{};  // quarters of 0 .. 2047
  for (std::size_t b = 0; b < matrix.index.size(); ++b) {
    ++in_row[matrix.index[b].i];
    ++in_column[matrix.index[b].j];
    ++of_value.at(matrix.values[b] / 512u);
  }
  // 400 to be expected, standard deviation 15.5: six of them.
  for (const auto& counts : {in_row, in_column}) {
    CHECK(*std::min_element(counts.begin(), counts.end()) > 306);
    CHECK(*std::max_element(counts.begin(), counts.end()) < 494);
  }
  for (const int count : of_value) CHECK(std::abs(count - 100'000) < 1700);
}

TEST_CASE("gen: shapes of the skewed patterns", "[tools][gen]") {
  const TemporaryFolder folder;
  const auto counts = [&](const std::string& pattern, bool columns) {
    const BlockMatrix matrix =
        generate(folder.file("a"), {"--n", std::to_string(kNb), "--m", "1", "--k", "900", "--pattern", pattern});
    std::vector<int> in(kNb);
    for (const BlockIndex at : matrix.index) ++in[columns ? at.j : at.i];
    return in;
  };
  CHECK(counts("heavy-row", false)[kNb / 2] == 200);
  CHECK(counts("heavy-column", true)[kNb / 2] == 200);
  CHECK(counts("hub", false)[kNb / 2] == 200);
  CHECK(counts("hub", true)[kNb / 2 + 1] == 200);
  for (const bool columns : {false, true}) {
    const auto in = counts("power-law", columns);
    CHECK(in[0] > 3 * in[10]);
    CHECK(in[10] > in[100]);
  }
}

TEST_CASE("gen: a full matrix, an empty one, one block", "[tools][gen]") {
  const TemporaryFolder folder;
  CHECK(generate(folder.file("a"), {"--n", "64", "--m", "8", "--k", "64"}).index.size() == 64);
  CHECK(generate(folder.file("a"), {"--n", "64", "--m", "8", "--k", "64", "--order", "sorted"}).index.size() == 64);
  CHECK(generate(folder.file("a"), {"--n", "64", "--m", "8", "--k", "0"}).index.empty());
  CHECK(generate(folder.file("a"), {"--n", "64", "--m", "8", "--k", "0", "--order", "sorted"}).index.empty());
  CHECK(generate(folder.file("a"), {"--n", "64", "--m", "64", "--k", "1", "--pattern", "heavy-row"}).index.size() == 1);
  CHECK(generate(folder.file("a"), {"--n", "4294967295", "--m", "1", "--k", "9"}).index.size() == 9);
}

TEST_CASE("gen: every place of a pattern", "[tools][gen]") {
  const TemporaryFolder folder;
  const auto all = [&](std::vector<std::string> arguments) {
    const std::vector<std::string> base = {"--n", "200", "--m", "2", "--k", "all"};
    arguments.insert(arguments.begin(), base.begin(), base.end());
    return generate(folder.file("a"), arguments).index.size();
  };
  CHECK(all({}) == 10'000);
  CHECK(all({"--pattern", "banded", "--bandwidth", "3"}) == 7 * 100 - 12);
  CHECK(all({"--pattern", "arrow", "--order", "sorted"}) == 298);
  CHECK(all({"--pattern", "block-diagonal", "--group", "10"}) == 1000);
  CHECK(all({"--pattern", "stencil-7"}) == 570);
}

TEST_CASE("gen: seed, largest value and all-zero blocks", "[tools][gen]") {
  const TemporaryFolder folder;
  const std::vector<std::string> base = {"--n", "800", "--m", "8", "--k", "2000"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), base.begin(), base.end());
    return generate(folder.file("a"), more);
  };
  const auto largest = [](const BlockMatrix& m) { return *std::max_element(m.values.begin(), m.values.end()); };
  CHECK(largest(with({})) == 2047);
  CHECK(largest(with({"--max-value", "65535"})) > 65500);
  CHECK(largest(with({"--max-value", "1"})) == 1);
  CHECK(largest(with({"--max-value", "0"})) == 0);
  CHECK_FALSE(with({"--seed", "1"}) == with({"--seed", "2"}));
  CHECK(with({}) == with({"--seed", "1"}));
  const auto zero_blocks = [](const BlockMatrix& m) {
    int zeros = 0;
    for (std::size_t b = 0; b < m.index.size(); ++b) {
      zeros += std::all_of(m.block(b), m.block(b) + 64, [](std::uint16_t v) { return v == 0; }) ? 1 : 0;
    }
    return zeros;
  };
  CHECK(zero_blocks(with({})) == 0);
  CHECK(zero_blocks(with({"--zero-blocks", "1"})) == 2000);
  CHECK(std::abs(zero_blocks(with({"--zero-blocks", "0.25"})) - 500) < 120);
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
  struct Refusal {
    std::vector<std::string> arguments;
    std::string message;
  };
  const std::vector<Refusal> refusals = {
      {{}, "output file is missing"},
      {{out}, "--n: is missing"},
      {{out, "--n", "8", "--m", "2"}, "--k: is missing"},
      {{out, "--n", "9", "--m", "2", "--k", "1"}, "--n: 9 is not a multiple of m = 2; give 8 or 10"},
      {{out, "--n", "1", "--m", "2", "--k", "1"}, "give 2"},
      {{out, "--n", "0", "--m", "2", "--k", "0"}, "--n: \"0\" is not a whole number from 1"},
      {{out, "--n", "8", "--m", "0", "--k", "0"}, "--m: \"0\" is not a whole number from 1"},
      {{out, "--n", "130", "--m", "65", "--k", "0"}, "from 1 to 64"},
      {{out, "--n", "8", "--m", "2", "--k", "17"}, "give at most 16, or a larger --n or a smaller --m"},
      {{out, "--n", "8", "--m", "2", "--k", "4294967296"},
       "--k: \"4294967296\" is not a whole number from 0 to 4294967295"},
      {{out, "--n", "8", "--m", "2", "--k", "5", "--pattern", "diagonal"}, "has 4 places"},
      {{out, "--n", "8", "--m", "2", "--k", "1", "--pattern", "spiral"}, "\"spiral\" is not known"},
      {{out, "--n", "8", "--m", "2", "--k", "1", "--bandwidth", "1"}, "--bandwidth: only the banded"},
      {{out, "--n", "8", "--m", "2", "--k", "1", "--pattern", "banded", "--bandwidth", "4"}, "give at most 3"},
      {{out, "--n", "8", "--m", "2", "--k", "1", "--group", "2"}, "--group: only the block-diagonal"},
      {{out, "--n", "8", "--m", "2", "--k", "1", "--pattern", "block-diagonal", "--group", "5"}, "give 1 to 4"},
      {{out, "--n", "8", "--m", "2", "--k", "all", "--pattern", "rmat"}, "depend on the number of blocks"},
      {{out, "--n", "8", "--m", "2", "--k", "all", "--pattern", "banded"}, "depend on the number of blocks"},
      {{out, "--n", "1e9", "--m", "1", "--k", "all"}, "a file at most 4294967295 blocks"},
      {{out, "--n", "8", "--m", "2", "--k", "1", "--max-value", "65536"}, "from 0 to 65535"},
      {{out, "--n", "8", "--m", "2", "--k", "1", "--zero-blocks", "2"}, "--zero-blocks"},
      {{out, "--n", "8", "--m", "2", "--k", "1", "--order", "random"}, "give shuffled or sorted"},
      {{out, "--n", "8", "--m", "2", "--k", "1", "--threads", "0"}, "--threads"},
      {{out, "--n", "8", "--m", "2", "--k", "1", "--seed", "-1"}, "--seed"},
      {{out, out, "--n", "8", "--m", "2", "--k", "1"}, "unexpected argument"},
      {{out, "--n", "8", "--n", "8", "--m", "2", "--k", "1"}, "--n: is given more than once"},
      {{out, "--nb", "8"}, "spmm-gen --help"},
  };
  for (const Refusal& refusal : refusals) {
    const ProcessResult result = run_tool("gen", refusal.arguments);
    INFO(result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK(result.err.rfind("spmm-gen: error: ", 0) == 0);
    CHECK(result.err.find(refusal.message) != std::string::npos);
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
    CHECK(std::filesystem::is_empty(folder.path()));
  }
  CHECK(run_tool("gen", {folder.file("no/such/folder"), "--n", "8", "--m", "2", "--k", "1"}).exit_code == 73);
  CHECK(run_tool("gen", {"/dev/full", "--n", "8", "--m", "2", "--k", "1"}).exit_code == 74);
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
    CHECK(result.err == "spmm-gen: error: spmm-gen: interrupted; nothing was written, it is safe to run it again\n");
    CHECK(std::filesystem::is_empty(folder.path()));
  }
}
