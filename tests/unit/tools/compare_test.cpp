// spmm-compare: same, different and trouble.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "report/text.hpp"
#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "test_paths.hpp"
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

TEST_CASE("compare: the same, and elements that differ", "[tools][compare]") {
  const Pair pair;
  CHECK(pair.compare(base()).out == "same: 3 blocks\n");
  CHECK(pair.compare(base(), {"-q"}).out.empty());
  CHECK(pair.compare(base(), {"--any-order", "--type", "u32"}).exit_code == 0);
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
  for (std::uint32_t& value : right.values) value = 77;
  for (const auto& [most, lines] : {std::pair{"1", 2}, {"0", 1}, {"10", 11}}) {
    const std::string out = pair.compare(right, {"--max-differences", most}).out;
    CHECK(std::count(out.begin(), out.end(), '\n') == lines);
    CHECK(out.find("elements that differ: 12; ") != std::string::npos);
  }
}

TEST_CASE("compare: blocks that one file does not have", "[tools][compare]") {
  const Pair pair;
  for (const std::size_t missing : {std::size_t{0}, std::size_t{1}, std::size_t{2}}) {
    const ProcessResult result = pair.compare(without_block(base(), missing));
    CHECK(result.exit_code == 1);
    CHECK(result.out.find("elements that differ: 4; blocks that differ: 0, only in left: 1, only in right: 0\n") !=
          std::string::npos);
  }
  CHECK(pair.compare(with_block(base(), 1, {0, 2}, {0, 0, 0, 9})).out ==
        "row 1, col 5: left no block, right 9\n"
        "elements that differ: 1; blocks that differ: 0, only in left: 0, only in right: 1\n");
  // An all-zero block equals a missing one on request only.
  const Product zeros = with_block(with_block(base(), 3, {2, 2}, {0, 0, 0, 0}), 1, {0, 2}, {0, 0, 0, 0});
  CHECK(pair.compare(zeros).out ==
        "elements that differ: 0; blocks that differ: 0, only in left: 0, only in right: 2 (all zero: 2)\n");
  CHECK(pair.compare(zeros, {"--ignore-zero-blocks"}).exit_code == 0);
  CHECK(pair.compare(with_block(base(), 3, {2, 2}, {0, 0, 0, 1}), {"--ignore-zero-blocks"}).exit_code == 1);
}

TEST_CASE("compare: order of the blocks", "[tools][compare]") {
  const Pair pair;
  const Product right = reordered(base(), {2, 0, 1});
  const ProcessResult strict = pair.compare(right);
  CHECK(strict.exit_code == 2);
  CHECK(strict.err.find("right, record 1 (byte offset 36)") != std::string::npos);
  CHECK(strict.err.find("--any-order") != std::string::npos);
  CHECK(pair.compare(right, {"--any-order"}).exit_code == 0);
  Product changed = right;
  changed.values[0] = 1;
  CHECK(pair.compare(changed, {"--any-order"}).out.find("row 4, col 2: left 9, right 1\n") == 0);
  // Out of order, but the same in both files up to where they differ.
  write_product(pair.file("left"), reordered(base(), {2, 0, 1}));
  CHECK(pair.compare(right).exit_code == 0);
  CHECK(pair.compare(without_block(right, 2)).exit_code == 1);
}

TEST_CASE("compare: other headers, 16-bit files, also with 32-bit ones", "[tools][compare]") {
  const Pair pair;
  CHECK(pair.compare(matrix_of<std::uint32_t>(8, 2, {}, {})).out == "n differs: 6 and 8\n");
  CHECK(pair.compare(matrix_of<std::uint32_t>(6, 3, {}, {})).exit_code == 1);
  const BlockMatrix narrow = matrix_of<std::uint16_t>(6, 2, {{0, 0}}, {1, 2, 3, 4});
  write_matrix(pair.file("left"), narrow);
  write_matrix(pair.file("right"), narrow);
  CHECK(pair.compare_files().exit_code == 0);
  CHECK(pair.compare_files({"--type", "u32"}).exit_code == 2);
  CHECK(pair.compare(matrix_of<std::uint32_t>(6, 2, {{0, 0}}, {1, 2, 3, 4})).exit_code == 0);
  CHECK(pair.compare(matrix_of<std::uint32_t>(6, 2, {{0, 0}}, {1, 2, 3, 65540})).exit_code == 1);
  const ProcessResult kinds = pair.compare(base());
  CHECK(kinds.exit_code == 1);
  CHECK(kinds.out.find("left is an operand") == 0);
  CHECK(pair.compare(base(), {"--max-differences", "1"}).out.find("row 2, col 4: left no block, right 5\n") == 0);
  write_matrix(pair.file("left"), matrix_of<std::uint16_t>(6, 2, {{1, 0}, {0, 0}}, {1, 2, 3, 4, 5, 6, 7, 8}));
  CHECK(pair.compare_files().exit_code == 1);
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
  CHECK(pair.compare(without_block(left, 0), {"--max-differences", "0"})
            .out.find("; 3 elements at the limit 4294967295 in left; 1 element at the limit 4294967295 in right\n") !=
        std::string::npos);
  CHECK(cli::saturation_text(18446744073709551615u) == "18,446,744,073,709,551,615 elements at the limit 4294967295");
}

TEST_CASE("compare: all trouble is exit code 2", "[tools][compare]") {
  const Pair pair;
  const auto refused = [&](std::vector<std::string> arguments, const std::string& place) {
    const ProcessResult result = run_tool("compare", std::move(arguments));
    INFO(result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.err.rfind("spmm-compare: error: ", 0) == 0);
    CHECK(result.err.find(place) != std::string::npos);
  };
  const std::string left = pair.file("left");
  refused({}, "left file");
  refused({left}, "right file");
  refused({left, left, left}, "unexpected argument");
  refused({left, pair.file("nothing")}, "nothing");
  refused({left, left, "--type", "u64"}, "--type");
  refused({left, pair.file("nothing"), "--max-differences", "some"}, "--max-differences");
  refused({left, SPMM_SOURCE_DIR "/data/README.md"}, "README.md");
  // Malformed beyond the part that both files share.
  const auto overwrite = [&](std::uint64_t record, const std::string& bytes) {
    std::fstream file(pair.file("right"), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(12 + record * 24));
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  };
  write_product(pair.file("right"), with_block(base(), 3, {2, 2}, {1, 1, 1, 1}));
  overwrite(3, "\3");
  refused({left, pair.file("right")}, "record 3 (byte offset 84)");
  for (const char* order : {"--any-order", "--ignore-zero-blocks"}) {
    for (const std::uint64_t record : {2, 3}) overwrite(record, std::string("\2\0\0\0\2\0\0\0", 8));
    refused({left, pair.file("right"), order}, "block (2, 2) was stored before in record 2");
  }
  std::filesystem::resize_file(pair.file("right"), 100);
  refused({left, pair.file("right")}, "right");
}
