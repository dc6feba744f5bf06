// spmm-verify: results of this and of other programs, right, wrong and broken.
#include <algorithm>
#include <string>
#include <vector>

#include "cli/exit_codes.hpp"
#include "cli/workplace.hpp"
#include "report/text.hpp"
#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "support/oracle.hpp"
#include "test_paths.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
using namespace spmm::cli;
using Words = std::vector<std::string>;

ProcessResult verify(Words arguments) {
  arguments.insert(arguments.begin(), std::string(SPMM_BIN_DIR) + "/spmm-verify");
  return run_process(arguments);
}

/// The product of x.bin and y.bin, which are written here too.
ProductMatrix write_operands(std::uint32_t most) {
  const BlockMatrix x = random_matrix(4 * 60, 4, 400, most, 1);
  const BlockMatrix y = random_matrix(4 * 60, 4, 400, most, 2);
  write_matrix("x.bin", x);
  write_matrix("y.bin", y);
  return oracle_multiply(x, y);
}

void swap_blocks(ProductMatrix& c, std::size_t x, std::size_t y) {
  std::swap(c.index[x], c.index[y]);
  for (std::size_t e = 0; e < 16; ++e) std::swap(c.values[x * 16 + e], c.values[y * 16 + e]);
}

void add_block(ProductMatrix& c, BlockIndex at, std::uint32_t value) {
  c.index.push_back(at);
  c.values.insert(c.values.end(), 16, value);
}

/// The first place behind the last block of C that is free.
BlockIndex absent_block(const ProductMatrix& c) {
  for (BlockIndex at{.i = 59, .j = 59};; --at.j) {
    if (std::find(c.index.begin(), c.index.end(), at) == c.index.end()) return at;
  }
}

}  // namespace

TEST_CASE("spmm-verify: products with and without saturated elements, of spmm") {
  const Workplace workplace;
  for (const std::uint32_t most : {1000u, 40000u, 65535u}) {
    const ProductMatrix product = write_operands(most);
    write_product("c.bin", product);
    const auto saturated = std::count(product.values.begin(), product.values.end(), 4294967295u);
    const ProcessResult right = verify({"x.bin", "y.bin", "c.bin"});
    INFO(right.err);
    CHECK(right.exit_code == kOk);
    CHECK(has(right.out, "proven: "));
    CHECK(has(right.out, " block rows computed again") == (most > 1000));
    CHECK((saturated > 0) == (most > 1000));
    CHECK(has(right.out, ", " + cli::saturation_text(static_cast<std::uint64_t>(saturated))) == (saturated > 0));
    CHECK(verify({"x.bin", "y.bin", "c.bin", "-q", "--threads", "3"}).exit_code == kOk);
    CHECK(verify({"x.bin", "y.bin", "c.bin", "-q", "--any-order", "--memory-limit", "1M"}).exit_code == kOk);
    CHECK(verify({"y.bin", "x.bin", "c.bin"}).exit_code == kNegative);
  }
  const ProcessResult seeded = verify({"x.bin", "y.bin", "c.bin", "--verify-seed", "12345"});
  CHECK(has(seeded.out, "key 12345"));
}

TEST_CASE("spmm-verify: differences are shown with both values, and the exit code is 1") {
  const Workplace workplace;
  const ProductMatrix c = write_operands(2000);
  ProductMatrix wrong = c;
  wrong.values[100 * 16 + 5] += 1;
  write_product("w.bin", wrong);
  for (const Words& options : {Words{}, Words{"--any-order"}, Words{"-q"}}) {
    Words arguments = {"x.bin", "y.bin", "w.bin"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const ProcessResult result = verify(arguments);
    INFO(result.out << result.err);
    CHECK(result.exit_code == kNegative);
    CHECK(has(result.out, "block (" + std::to_string(c.index[100].i) + ", " + std::to_string(c.index[100].j) + ")"));
    CHECK(has(result.out, "element (1, 1) expected " + std::to_string(c.values[100 * 16 + 5])));
  }
  ProductMatrix dropped = c;
  dropped.index.erase(dropped.index.begin() + 7);
  dropped.values.erase(dropped.values.begin() + 7 * 16, dropped.values.begin() + 8 * 16);
  write_product("d.bin", dropped);
  CHECK(has(verify({"x.bin", "y.bin", "d.bin"}).out, "is absent"));
  ProductMatrix added = c;
  add_block(added, absent_block(c), 3);
  write_product("e.bin", added);
  CHECK(verify({"x.bin", "y.bin", "e.bin", "--any-order"}).exit_code == kNegative);
}

TEST_CASE("spmm-verify: order, duplicates, zero blocks and indices of C are its format") {
  const Workplace workplace;
  const ProductMatrix c = write_operands(2000);
  const auto expect = [](const ProductMatrix& product, Words options, int code, const std::string& said) {
    write_product("t.bin", product);
    options.insert(options.begin(), {"x.bin", "y.bin", "t.bin"});
    const ProcessResult result = verify(options);
    INFO(said << ": " << result.out << result.err);
    CHECK(result.exit_code == code);
    CHECK(has(result.out + result.err, said));
  };
  ProductMatrix unordered = c;
  swap_blocks(unordered, 3, 90);
  expect(unordered, {}, kBadData, "--any-order");
  expect(unordered, {"--any-order"}, kOk, "proven");
  ProductMatrix twice = c;
  twice.index[50] = twice.index[49];
  expect(twice, {}, kBadData, "record 49");
  expect(twice, {"--any-order"}, kBadData, "record 49");
  ProductMatrix halves = c;  // both halves of one block: the sums are right
  add_block(halves, c.index[20], 0);
  for (std::size_t e = 0; e < 16; ++e) {
    halves.values[halves.values.size() - 16 + e] = c.values[20 * 16 + e] / 2;
    halves.values[20 * 16 + e] -= c.values[20 * 16 + e] / 2;
  }
  expect(halves, {"--any-order"}, kBadData, "record 20");
  ProductMatrix zero = c;
  add_block(zero, absent_block(c), 0);
  expect(zero, {"--any-order"}, kBadData, "--allow-zero-blocks");
  expect(zero, {"--any-order", "--allow-zero-blocks"}, kOk, "proven");
  ProductMatrix outside = c;
  outside.index[5].j = 60;
  expect(outside, {"--any-order"}, kBadData, "record 5");
}

TEST_CASE("spmm-verify: files that are none, operands that break the format, other shapes") {
  const Workplace workplace;
  const ProductMatrix c = write_operands(2000);
  write_product("c.bin", c);
  CHECK(verify({"x.bin", "y.bin"}).exit_code == kUsage);
  CHECK(verify({"x.bin", "y.bin", "c.bin", "d.bin"}).exit_code == kUsage);
  CHECK(verify({"x.bin", "y.bin", "none.bin"}).exit_code == kNoInput);
  CHECK(verify({"x.bin", "none.bin", "c.bin"}).exit_code == kNoInput);
  CHECK(verify({"x.bin", "a.bin", "c.bin"}).exit_code == kBadData);
  CHECK(verify({"a.bin", "b.bin", "c.bin"}).exit_code == kBadData);
  const std::string bytes = bytes_of("c.bin");
  for (const std::string& broken : {bytes.substr(0, 7), bytes.substr(0, bytes.size() - 1), bytes + "x"}) {
    write_bytes("t.bin", broken);
    const ProcessResult result = verify({"x.bin", "y.bin", "t.bin"});
    INFO(result.err);
    CHECK(result.exit_code == kBadData);
    CHECK(has(result.err, "t.bin"));
  }
  BlockMatrix operand = read_matrix("x.bin");
  operand.index[9] = operand.index[4];
  write_matrix("twice.bin", operand);
  const ProcessResult twice = verify({"twice.bin", "y.bin", "c.bin"});
  CHECK(twice.exit_code == kBadData);
  CHECK(has(twice.err, "record 9"));
  operand.index[9] = {.i = 60, .j = 0};
  write_matrix("outside.bin", operand);
  CHECK(verify({"x.bin", "outside.bin", "c.bin"}).exit_code == kBadData);
  CHECK(verify({"--help"}).exit_code == kOk);
}
