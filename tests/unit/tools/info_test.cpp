// spmm-info: its numbers on files that can be checked by hand, its JSON; the golden product.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "spmm/io.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
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

TEST_CASE("info: golden files and the product that they predict", "[tools][info]") {
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

  const PlainJson product = info_json({golden("a.bin"), golden("b.bin")})["product"];
  CHECK(product["pairs"] == 5);
  CHECK(product["max_blocks"] == 5);       // 5 pairs; 3 block rows of A times 2 block columns of B
  CHECK(product["expected_blocks"] == 4);  // 9 * (1 - e^(-5/9)) = 3.84
  CHECK(product["max_bytes"] == 12 + 5 * 24);
  const std::string text = run_tool("info", {golden("a.bin"), golden("b.bin")}).out;
  for (const char* line :
       {"n 6, m 2, blocks 5 (k) on a grid of 3 x 3, elements of 16 bits\n", "records: not in the order of (i, j)\n",
        "blocks per block row: min 1, median 1, mean 1.66667, max 3; empty block rows: 0\n", "pairs: 5 (exact)"}) {
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
  CHECK(info_json({folder.file("empty"), folder.file("empty")})["product"]["max_bytes"] == 12);
  for (const char* order : {"sorted", "shuffled"}) {
    run_tool("gen", {folder.file("g"), "--n", "4096", "--m", "4", "--k", "300e3", "--order", order});
    const PlainJson large = info_json({folder.file("g")});
    CHECK(large["sorted"] == (std::string(order) == "sorted"));
    CHECK(large["largest_element"] == 2047);
    CHECK(large["block_rows"]["mean"] == 300e3 / 1024);
  }
}

TEST_CASE("info: the product of transposed matrices", "[tools][info]") {
  const TemporaryFolder folder;
  const BlockMatrix a = random_matrix(40, 2, 60, 9, 1);
  const BlockMatrix b = random_matrix(40, 2, 50, 9, 2);
  write_matrix(folder.file("a"), a);
  write_matrix(folder.file("b"), b);
  write_matrix(folder.file("ta"), transposed(a));
  write_matrix(folder.file("tb"), transposed(b));
  const auto product = [&](const std::string& x, const std::string& y, const std::vector<std::string>& options) {
    std::vector<std::string> words = {folder.file(x), folder.file(y)};
    words.insert(words.end(), options.begin(), options.end());
    return info_json(words)["product"];
  };
  CHECK(product("a", "b", {"--transpose-a"}) == product("ta", "b", {}));
  CHECK(product("a", "b", {"--transpose-b"}) == product("a", "tb", {}));
  CHECK(product("a", "a", {"--transpose-a"}) == product("ta", "a", {}));
  CHECK(product("a", "b", {"--transpose-a"}) != product("a", "b", {}));
  CHECK(run_tool("info", {folder.file("a"), "--transpose-a"}).exit_code == 2);
}

TEST_CASE("info: how many elements of a product can saturate at most", "[tools][info]") {
  const TemporaryFolder folder;
  const auto bound = [&](const BlockMatrix& a, const BlockMatrix& b) {
    write_matrix(folder.file("a"), a);
    write_matrix(folder.file("b"), b);
    const std::uint64_t most = info_json({folder.file("a"), folder.file("b")})["product"]["max_saturated_elements"];
    const ProductMatrix c = oracle_multiply(a, b);
    CHECK(static_cast<std::uint64_t>(std::count(c.values.begin(), c.values.end(), 4294967295u)) <= most);
    const std::string said = most == 0 ? "elements: none can saturate\n" : "elements: at most ";
    CHECK(run_tool("info", {folder.file("a"), folder.file("b")}).out.find(said) != std::string::npos);
    return most;
  };
  const auto one = [](std::uint32_t m, std::uint16_t value) {
    return matrix_of<std::uint16_t>(2 * m, m, {{0, 0}}, std::vector<std::uint16_t>(std::size_t{m} * m, value));
  };
  CHECK(bound(one(1, 65535), one(1, 65535)) == 0);  // 65535 * 65535 < 2^32 - 1
  CHECK(bound(one(2, 65535), one(2, 65535)) == 4);
  CHECK(bound(one(2, 32768), one(2, 65535)) == 0);  // 2 * 32768 * 65535 = 2^32 - 65536
  CHECK(bound(one(2, 0), one(2, 65535)) == 0);
  CHECK(bound(one(64, 8192), one(64, 8192)) == 4096);  // 64 * 2^26 = 2^32
  CHECK(bound(one(64, 8191), one(64, 8192)) == 0);
  // A full row of A times a full column of B: one block has as many pairs as it takes, the others do not.
  BlockMatrix row = matrix_of<std::uint16_t>(16, 2, {{3, 3}}, {1, 1, 1, 1});
  BlockMatrix column = row;
  for (std::uint32_t x = 0; x < 8; ++x) {
    row.index.push_back({.i = 1, .j = x});
    column.index.push_back({.i = x, .j = 5});
    row.values.insert(row.values.end(), 4, 17000);
    column.values.insert(column.values.end(), 4, 17000);  // 8 pairs of 2 terms: 4.6e9
  }
  CHECK(bound(row, column) == 4);
  for (std::uint16_t& value : column.values) value = std::min<std::uint16_t>(value, 15000);
  CHECK(bound(row, column) == 0);  // 4.08e9
  for (std::uint32_t seed = 1; seed < 4; ++seed) {
    for (const std::uint32_t most : {12000u, 25000u, 65535u}) {
      bound(random_matrix(64, 4, 60, most, seed), random_matrix(64, 4, 70, most, seed + 9));
    }
  }
  // Results as operands: no number overflows.
  write_product(folder.file("r"), matrix_of<std::uint32_t>(64, 64, {{0, 0}}, std::vector<std::uint32_t>(4096, ~0u)));
  CHECK(info_json({folder.file("r"), folder.file("r")})["product"]["max_saturated_elements"] == 4096);
}

TEST_CASE("info: billions of block rows take little memory; trouble", "[tools][info]") {
  const TemporaryFolder folder;
  run_tool("gen", {folder.file("g"), "--n", "4294967295", "--m", "1", "--k", "1000"});
  const ProcessResult result = run_tool("info", {folder.file("g"), folder.file("g")});
  CHECK(result.exit_code == 0);
  CHECK(stayed_below(result, 40'000'000));

  write_matrix(folder.file("other"), matrix_of<std::uint16_t>(8, 2, {}, {}));
  CHECK(run_tool("info", {}).exit_code == 2);
  CHECK(run_tool("info", {golden("a.bin"), golden("a.bin"), golden("a.bin")}).exit_code == 2);
  CHECK(run_tool("info", {folder.file("nothing")}).exit_code == 66);
  CHECK(run_tool("info", {golden("a.bin"), "--type", "u32"}).exit_code == 65);
  const ProcessResult shapes = run_tool("info", {golden("a.bin"), folder.file("other")});
  CHECK(shapes.exit_code == 65);
  CHECK(shapes.out.empty());
  BlockMatrix wrong = read_matrix(golden("a.bin"));
  wrong.index[4].j = 3;
  write_matrix(folder.file("outside"), wrong);
  const ProcessResult outside = run_tool("info", {folder.file("outside")});
  CHECK(outside.exit_code == 65);
  CHECK(outside.err.find("record 4 (byte offset 76): block index (0, 3)") != std::string::npos);
}
