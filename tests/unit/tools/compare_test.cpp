// spmm-compare: same, different and trouble.
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "report/text.hpp"
#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "test_paths.hpp"
#include "tools/common/matrix_file.hpp"
#include "unit/tools/tool_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;

using Product = ProductMatrix;

/// n 6, m 2: blocks (0, 0), (1, 2), (2, 1).
Product base() {
  return matrix_of<std::uint32_t>(6, 2, {{0, 0}, {1, 2}, {2, 1}}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 4294967294u});
}

/// A folder with the base matrix in "left".
class Pair {
 public:
  Pair() { write_product(folder_.file("left"), base()); }

  /// Writes "right" and compares.
  [[nodiscard]] ProcessResult compare(const Product& right, std::vector<std::string> options = {}) const {
    write_product(folder_.file("right"), right);
    return compare_files(std::move(options));
  }

  [[nodiscard]] ProcessResult compare_files(std::vector<std::string> options = {}) const {
    options.insert(options.begin(), {"left", "right"});
    ProcessOptions process;
    process.folder = folder_.path();
    return run_tool("compare", options, process);
  }

  [[nodiscard]] std::string file(const std::string& name) const { return folder_.file(name); }

 private:
  TemporaryFolder folder_;
};

Product without_block(Product matrix, std::size_t b) {
  const auto at = static_cast<std::ptrdiff_t>(b);
  matrix.index.erase(matrix.index.begin() + at);
  matrix.values.erase(matrix.values.begin() + at * 4, matrix.values.begin() + at * 4 + 4);
  return matrix;
}

Product with_block(Product matrix, std::size_t b, BlockIndex index, std::vector<std::uint32_t> values) {
  const auto at = static_cast<std::ptrdiff_t>(b);
  matrix.index.insert(matrix.index.begin() + at, index);
  matrix.values.insert(matrix.values.begin() + at * 4, values.begin(), values.end());
  return matrix;
}

Product reordered(const Product& matrix, const std::vector<std::size_t>& order) {
  Product result{.n = matrix.n, .m = matrix.m, .index = {}, .values = {}};
  for (const std::size_t b : order) {
    result.index.push_back(matrix.index[b]);
    result.values.insert(result.values.end(), matrix.block(b), matrix.block(b) + 4);
  }
  return result;
}

}  // namespace

TEST_CASE("compare: the same", "[tools][compare]") {
  const Pair pair;
  const ProcessResult result = pair.compare(base());
  CHECK(result.exit_code == 0);
  CHECK(result.out == "same: 3 blocks\n");
  CHECK(pair.compare(base(), {"-q"}).out.empty());
  CHECK(pair.compare(base(), {"--any-order"}).exit_code == 0);
  CHECK(pair.compare(base(), {"--type", "u32"}).exit_code == 0);
}

TEST_CASE("compare: elements that differ", "[tools][compare]") {
  const Pair pair;
  Product right = base();
  right.values[1] = 0;
  right.values[11] = 0;
  const ProcessResult result = pair.compare(right);
  CHECK(result.exit_code == 1);
  CHECK(result.out ==
        "row 0, col 1: left 2, right 0\n"
        "row 5, col 3: left 4294967294, right 0\n"
        "elements that differ: 2; blocks that differ: 2, only in left: 0, only in right: 0\n");
  CHECK(pair.compare(right, {"--any-order"}).out == result.out);
  const ProcessResult quiet = pair.compare(right, {"-q"});
  CHECK(quiet.exit_code == 1);
  CHECK(quiet.out.empty());
}

TEST_CASE("compare: only the first differences are printed, all are counted", "[tools][compare]") {
  const Pair pair;
  Product right = base();
  for (std::uint32_t& value : right.values) value -= 1;
  const std::string total = "elements that differ: 12; blocks that differ: 3, only in left: 0, only in right: 0\n";
  CHECK(pair.compare(right, {"--max-differences", "1"}).out == "row 0, col 0: left 1, right 0\n" + total);
  CHECK(pair.compare(right, {"--max-differences", "0"}).out == total);
  const std::string ten = pair.compare(right).out;
  CHECK(std::count(ten.begin(), ten.end(), '\n') == 11);
}

TEST_CASE("compare: a block that one file does not have", "[tools][compare]") {
  const Pair pair;
  for (const std::size_t missing : {std::size_t{0}, std::size_t{1}, std::size_t{2}}) {
    const ProcessResult result = pair.compare(without_block(base(), missing));
    CHECK(result.exit_code == 1);
    CHECK(result.out.find("elements that differ: 4; blocks that differ: 0, only in left: 1, only in right: 0\n") !=
          std::string::npos);
  }
  const ProcessResult extra = pair.compare(with_block(base(), 1, {0, 2}, {0, 0, 0, 9}));
  CHECK(extra.exit_code == 1);
  CHECK(extra.out ==
        "row 1, col 5: left no block, right 9\n"
        "elements that differ: 1; blocks that differ: 0, only in left: 0, only in right: 1\n");
}

TEST_CASE("compare: an all-zero block equals a missing one on request only", "[tools][compare]") {
  const Pair pair;
  const Product right = with_block(with_block(base(), 3, {2, 2}, {0, 0, 0, 0}), 1, {0, 2}, {0, 0, 0, 0});
  const ProcessResult strict = pair.compare(right);
  CHECK(strict.exit_code == 1);
  CHECK(strict.out ==
        "elements that differ: 0; blocks that differ: 0, only in left: 0, only in right: 2 (all zero: 2)\n");
  CHECK(pair.compare(right, {"--ignore-zero-blocks"}).exit_code == 0);
  CHECK(pair.compare(with_block(base(), 3, {2, 2}, {0, 0, 0, 1}), {"--ignore-zero-blocks"}).exit_code == 1);
}

TEST_CASE("compare: order of the blocks", "[tools][compare]") {
  const Pair pair;
  const Product right = reordered(base(), {2, 0, 1});
  const ProcessResult strict = pair.compare(right);
  CHECK(strict.exit_code == 2);
  CHECK(strict.err.find("right, record 1 (byte offset 36): block (0, 0) follows (2, 1)") != std::string::npos);
  CHECK(strict.err.find("--any-order") != std::string::npos);
  CHECK(pair.compare(right, {"--any-order"}).exit_code == 0);
  Product changed = right;
  changed.values[0] = 1;
  CHECK(pair.compare(changed, {"--any-order"}).out ==
        "row 4, col 2: left 9, right 1\n"
        "elements that differ: 1; blocks that differ: 1, only in left: 0, only in right: 0\n");
  // Out of order, but the same in both files up to where they differ.
  write_product(pair.file("left"), reordered(base(), {2, 0, 1}));
  CHECK(pair.compare(right).exit_code == 0);
  CHECK(pair.compare(without_block(right, 2)).exit_code == 1);
}

TEST_CASE("compare: headers that differ", "[tools][compare]") {
  const Pair pair;
  const ProcessResult n = pair.compare(matrix_of<std::uint32_t>(8, 2, {}, {}));
  CHECK(n.exit_code == 1);
  CHECK(n.out == "n differs: 6 and 8\n");
  const ProcessResult m = pair.compare(matrix_of<std::uint32_t>(6, 3, {}, {}));
  CHECK(m.exit_code == 1);
  CHECK(m.out == "m differs: 2 and 3\n");
}

TEST_CASE("compare: 16-bit files, also with 32-bit ones", "[tools][compare]") {
  const Pair pair;
  const BlockMatrix narrow = matrix_of<std::uint16_t>(6, 2, {{0, 0}}, {1, 2, 3, 4});
  write_matrix(pair.file("left"), narrow);
  write_matrix(pair.file("right"), narrow);
  CHECK(pair.compare_files().exit_code == 0);
  CHECK(pair.compare_files({"--type", "u16"}).exit_code == 0);
  CHECK(pair.compare_files({"--type", "u32"}).exit_code == 2);
  CHECK(pair.compare(matrix_of<std::uint32_t>(6, 2, {{0, 0}}, {1, 2, 3, 4})).exit_code == 0);
  CHECK(pair.compare(matrix_of<std::uint32_t>(6, 2, {{0, 0}}, {1, 2, 3, 65540})).exit_code == 1);
  const ProcessResult kinds = pair.compare(base());
  CHECK(kinds.exit_code == 1);
  const std::string lines =
      "left is an operand (elements of 16 bits), right is a result (elements of 32 bits)\n"
      "elements that differ: 8; blocks that differ: 0, only in left: 0, only in right: 2\n";
  CHECK(kinds.out == lines);
  write_matrix(pair.file("left"), matrix_of<std::uint16_t>(6, 2, {{1, 0}, {0, 0}}, {1, 2, 3, 4, 5, 6, 7, 8}));
  CHECK(pair.compare_files().out.find("left is an operand (elements of 16 bits), right is a result") == 0);
  write_matrix(pair.file("left"), narrow);
  CHECK(pair.compare(base(), {"--max-differences", "1"}).out == "row 2, col 4: left no block, right 5\n" + lines);
}

TEST_CASE("compare: elements at the limit are counted", "[tools][compare]") {
  const Pair pair;
  constexpr std::uint32_t kMost = 4294967295u;
  const Product left =
      matrix_of<std::uint32_t>(6, 2, {{0, 0}, {1, 2}, {2, 1}}, {kMost, 2, 3, kMost, 5, 6, 7, 8, kMost, 10, 11, 12});
  write_product(pair.file("left"), left);
  CHECK(pair.compare(left).out == "same: 3 blocks, 3 elements at the limit 4294967295\n");
  CHECK(pair.compare(reordered(left, {2, 0, 1}), {"--any-order"}).out ==
        "same: 3 blocks, 3 elements at the limit 4294967295\n");
  Product right = left;
  right.values[0] = 0;
  right.values[8] = right.values[3] = 1;
  right.values[9] = kMost;
  CHECK(pair.compare(right, {"--max-differences", "0"}).out ==
        "elements that differ: 4; blocks that differ: 2, only in left: 0, only in right: 0; 3 elements at the limit "
        "4294967295 in left; 1 element at the limit 4294967295 in right\n");
  CHECK(pair.compare(without_block(left, 0), {"--max-differences", "0"}).out ==
        "elements that differ: 4; blocks that differ: 0, only in left: 1, only in right: 0; 3 elements at the limit "
        "4294967295 in left; 1 element at the limit 4294967295 in right\n");
  const Product many = matrix_of<std::uint32_t>(64, 64, {{0, 0}}, std::vector<std::uint32_t>(4096, kMost));
  write_product(pair.file("left"), many);
  CHECK(pair.compare(many).out == "same: 1 blocks, 4,096 elements at the limit 4294967295\n");
  CHECK(cli::saturation_text(0) == "0 elements at the limit 4294967295");
  CHECK(cli::saturation_text(999) == "999 elements at the limit 4294967295");
  CHECK(cli::saturation_text(1000) == "1,000 elements at the limit 4294967295");
  CHECK(cli::saturation_text(18446744073709551615u) == "18,446,744,073,709,551,615 elements at the limit 4294967295");
}

TEST_CASE("compare: all trouble is exit code 2", "[tools][compare]") {
  const Pair pair;
  const auto refused = [&](std::vector<std::string> arguments, const std::string& message) {
    const ProcessResult result = run_tool("compare", std::move(arguments));
    INFO(result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.err.rfind("spmm-compare: error: ", 0) == 0);
    CHECK(result.err.find(message) != std::string::npos);
  };
  const std::string left = pair.file("left");
  refused({}, "left file is missing");
  refused({left}, "right file is missing");
  refused({left, left, left}, "unexpected argument");
  refused({left, pair.file("nothing")}, "cannot open");
  refused({left, left, "--type", "u64"}, "give auto, u16 or u32");
  refused({left, left, "--max-differences", "some"}, "--max-differences");
  refused({left, pair.file("nothing"), "--max-differences", "some"}, "--max-differences");
  refused({left, SPMM_SOURCE_DIR "/data/README.md"}, "README.md");

  // Malformed beyond the part that both files share.
  write_product(pair.file("right"), with_block(base(), 3, {2, 2}, {1, 1, 1, 1}));
  std::fstream file(pair.file("right"), std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(12 + 3 * 24);
  file.put(3);
  file.close();
  refused({left, pair.file("right")}, "record 3 (byte offset 84): block index (3, 2) is out of range");
  for (const char* order : {"--any-order", "--ignore-zero-blocks"}) {
    std::fstream again(pair.file("right"), std::ios::binary | std::ios::in | std::ios::out);
    again.seekp(12 + 2 * 24);
    again.write("\2\0\0\0\2\0\0\0", 8);
    again.seekp(12 + 3 * 24);
    again.write("\2\0\0\0\2\0\0\0", 8);
    again.close();
    refused({left, pair.file("right"), order}, "block (2, 2) was stored before in record 2");
  }
  std::filesystem::resize_file(pair.file("right"), 100);
  refused({left, pair.file("right")}, "right");
}

TEST_CASE("compare: files of many reads", "[tools][compare]") {
  const TemporaryFolder folder;
  const auto generate = [&](const std::string& name, const std::string& order, const std::string& seed) {
    REQUIRE(run_tool("gen",
                     {folder.file(name), "--n", "4096", "--m", "4", "--k", "300000", "--order", order, "--seed", seed})
                .exit_code == 0);
  };
  generate("sorted", "sorted", "1");
  generate("shuffled", "shuffled", "1");
  generate("other", "sorted", "2");
  const ProcessResult same = run_tool("compare", {folder.file("sorted"), folder.file("shuffled"), "--any-order"});
  CHECK(same.out == "same: 300000 blocks\n");
  CHECK(run_tool("compare", {folder.file("sorted"), folder.file("other")}).exit_code == 1);

  std::filesystem::copy_file(folder.file("sorted"), folder.file("changed"));
  std::fstream file(folder.file("changed"), std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(12 + 250'000 * 40 + 8);
  file.write("\xff\xff", 2);
  file.close();
  const ProcessResult one = run_tool("compare", {folder.file("sorted"), folder.file("changed")});
  CHECK(one.exit_code == 1);
  CHECK(one.out.find("right 65535\nelements that differ: 1; blocks that differ: 1,") != std::string::npos);
  CHECK(run_tool("compare", {folder.file("shuffled"), folder.file("changed"), "--any-order"})
            .out.find("elements that differ: 1; ") != std::string::npos);
}
