// spmm-info: its numbers on files that can be checked by hand, its JSON; the golden product.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "support/oracle.hpp"
#include "unit/tools/tool_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
using PlainJson = nlohmann::json;

PlainJson info_json(const std::vector<std::string>& arguments) {
  std::vector<std::string> all = arguments;
  all.push_back("--json");
  const ProcessResult result = run_tool("info", all);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return PlainJson::parse(result.out);
}

}  // namespace

TEST_CASE("golden: c.bin is the product of a.bin and b.bin", "[tools][golden]") {
  const ProductMatrix c = oracle_multiply(read_matrix(golden("a.bin")), read_matrix(golden("b.bin")));
  CHECK(c == read_product(golden("c.bin")));
  CHECK(c == matrix_of<std::uint32_t>(6, 2, {{0, 0}, {0, 1}, {2, 1}},
                                      {5, 10, 0, 0, 4294967295u, 65535, 65555, 40, 70, 100, 150, 220}));
}

TEST_CASE("info: golden files", "[tools][info]") {
  const PlainJson a = info_json({golden("a.bin")});
  const PlainJson expected = PlainJson::parse(R"({"type": "u16", "n": 6, "m": 2, "blocks": 5, "blocks_per_side": 3,
    "file_bytes": 92, "nonzero_elements": 11, "largest_element": 65535, "zero_blocks": 0, "sorted": false,
    "saturated_elements": 0})");
  for (const auto& [key, value] : expected.items()) {
    INFO(key);
    CHECK(a[key] == value);
  }
  CHECK(a["block_density"] == 5.0 / 9);
  CHECK(a["element_density"] == 11.0 / 36);
  CHECK(a["block_rows"] ==
        PlainJson::parse(R"({"empty": 0, "min": 1, "median": 1.0, "mean": 1.6666666666666667, "max": 3,
    "histogram": [{"from": 1, "to": 1, "count": 2}, {"from": 2, "to": 3, "count": 1}]})"));
  CHECK(a["block_columns"]["max"] == 2);

  const PlainJson c = info_json({golden("c.bin")});
  CHECK(c["type"] == "u32");
  CHECK(c["sorted"] == true);
  CHECK(c["saturated_elements"] == 1);
  CHECK(c["block_rows"]["empty"] == 1);
  CHECK(run_tool("info", {golden("c.bin")}).out.find("\n1 element at the limit 4294967295\n") != std::string::npos);

  const std::string text = run_tool("info", {golden("a.bin")}).out;
  for (const char* line :
       {"n 6, m 2, blocks 5 (k) on a grid of 3 x 3, elements of 16 bits\n", "records: not in the order of (i, j)\n",
        "blocks per block row: min 1, median 1, mean 1.66667, max 3; empty block rows: 0\n"}) {
    INFO(line);
    CHECK(text.find(line) != std::string::npos);
  }
}

TEST_CASE("info: all-zero blocks, empty matrix, order of records across reads", "[tools][info]") {
  const TemporaryFolder folder;
  write_matrix(folder.file("zero"), matrix_of<std::uint16_t>(4, 1, {{0, 0}, {0, 1}, {3, 3}}, {0, 7, 0}));
  const PlainJson zero = info_json({folder.file("zero")});
  CHECK(zero["zero_blocks"] == 2);
  CHECK(zero["sorted"] == true);
  CHECK(zero["block_rows"]["median"] == 0.5);
  write_matrix(folder.file("empty"), matrix_of<std::uint16_t>(4, 1, {}, {}));
  CHECK(info_json({folder.file("empty")})["block_rows"]["empty"] == 4);
  for (const char* order : {"sorted", "shuffled"}) {
    run_tool("gen", {folder.file("g"), "--n", "4096", "--m", "4", "--k", "300e3", "--order", order});
    const PlainJson large = info_json({folder.file("g")});
    CHECK(large["sorted"] == (std::string(order) == "sorted"));
    CHECK(large["largest_element"] == 2047);
    CHECK(large["block_rows"]["mean"] == 300e3 / 1024);
  }
}

TEST_CASE("info: billions of block rows take little memory; trouble", "[tools][info]") {
  const TemporaryFolder folder;
  run_tool("gen", {folder.file("g"), "--n", "4294967295", "--m", "1", "--k", "1000"});
  const ProcessResult result = run_tool("info", {folder.file("g")});
  CHECK(result.exit_code == 0);
  CHECK(stayed_below(result, 40'000'000));

  CHECK(run_tool("info", {}).exit_code == 2);
  CHECK(run_tool("info", {golden("a.bin"), golden("a.bin")}).exit_code == 2);
  CHECK(run_tool("info", {folder.file("nothing")}).exit_code == 66);
  CHECK(run_tool("info", {golden("a.bin"), "--type", "u32"}).exit_code == 65);
  BlockMatrix wrong = read_matrix(golden("a.bin"));
  wrong.index[4].j = 3;
  write_matrix(folder.file("outside"), wrong);
  const ProcessResult outside = run_tool("info", {folder.file("outside")});
  CHECK(outside.exit_code == 65);
  CHECK(outside.err.find("record 4 (byte offset 76): block index (0, 3)") != std::string::npos);
}
