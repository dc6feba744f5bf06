// spmm-convert: there and back without loss, and what the options do.
#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "unit/convert/support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;

void convert(const std::vector<std::string>& arguments) {
  const ProcessResult result = run_convert(arguments);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
}

/// A matrix without zero blocks, sorted: what comes back must be the same bytes.
BlockMatrix sorted_matrix(std::uint32_t n, std::uint32_t m, std::uint32_t blocks, unsigned seed) {
  BlockMatrix matrix = random_matrix(n, m, blocks, 65535, seed);
  std::vector<std::size_t> order(matrix.index.size());
  for (std::size_t b = 0; b < order.size(); ++b) order[b] = b;
  std::sort(order.begin(), order.end(), [&](auto x, auto y) { return matrix.index[x] < matrix.index[y]; });
  BlockMatrix sorted{.n = n, .m = m, .index = {}, .values = {}};
  for (const std::size_t b : order) {
    sorted.index.push_back(matrix.index[b]);
    sorted.values.insert(sorted.values.end(), matrix.block(b), matrix.block(b) + std::size_t{m} * m);
    sorted.values[(sorted.index.size() - 1) * m * m] = 65535;
  }
  return sorted;
}

/// What spmm-convert writes in front of the elements.
std::string head_of(const std::string& field, const std::string& shape, const std::string& count) {
  return "%%MatrixMarket matrix coordinate " + field + " general\n% written by spmm-convert\n" + shape + " " + count +
         std::string(20 - count.size(), ' ') + "\n";
}

const std::string kSmall = "%%MatrixMarket matrix coordinate integer general\n% x\n2 3 3\n1 1 4\n2 3 9\n1 2 1\n";

}  // namespace

TEST_CASE("convert: every side, there and back, is the same file", "[convert]") {
  const TemporaryFolder folder;
  for (const std::uint32_t m : {1u, 3u, 4u, 8u, 17u, 64u}) {
    const BlockMatrix matrix = sorted_matrix(m * 9, m, 30, m);
    write_matrix(folder.file("a.bin"), matrix);
    const std::string there = folder.file("a.mtx");
    convert({folder.file("a.bin"), there});
    convert({there, folder.file("back.bin"), "--block", std::to_string(m)});
    CHECK(bytes_of(folder.file("back.bin")) == bytes_of(folder.file("a.bin")));
    convert({there, folder.file("back.bin"), "--like", folder.file("a.bin")});
    CHECK(bytes_of(folder.file("back.bin")) == bytes_of(folder.file("a.bin")));
  }
}

TEST_CASE("convert: records in any order, and results with 32 bits", "[convert]") {
  const TemporaryFolder folder;
  const BlockMatrix matrix = random_matrix(60, 5, 40, 65535, 3);
  write_matrix(folder.file("a.bin"), matrix);
  ProductMatrix product{.n = matrix.n, .m = matrix.m, .index = matrix.index, .values = {}};
  for (const std::uint16_t value : matrix.values) product.values.push_back(value);
  write_product(folder.file("c.bin"), product);
  convert({folder.file("a.bin"), folder.file("a.mtx")});
  convert({folder.file("c.bin"), folder.file("c.mtx")});
  CHECK(bytes_of(folder.file("a.mtx")) == bytes_of(folder.file("c.mtx")));
  product.values[7] = 4294967295u;
  write_product(folder.file("c.bin"), product);
  convert({folder.file("c.bin"), folder.file("c.mtx")});
  CHECK(bytes_of(folder.file("c.mtx")).find(" 4294967295\n") != std::string::npos);
  convert({folder.file("c.mtx"), folder.file("d.bin"), "--on-overflow", "saturate", "--block", "5"});
  convert({folder.file("d.bin"), folder.file("d.mtx")});
  CHECK(bytes_of(folder.file("d.mtx")).find("4294967295") == std::string::npos);
}

TEST_CASE("convert: size, side and scale", "[convert]") {
  const TemporaryFolder folder;
  write_content(folder.file("s.mtx"), kSmall);
  const auto to_bin = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {folder.file("s.mtx"), folder.file("s.bin")});
    convert(options);
    return read_matrix(folder.file("s.bin"));
  };
  CHECK(to_bin({"--block", "2"}) == matrix_of<std::uint16_t>(4, 2, {{0, 0}, {0, 1}}, {4, 1, 0, 0, 0, 0, 9, 0}));
  CHECK(to_bin({"--block", "2", "--n", "8"}).n == 8);
  CHECK(to_bin({"--block", "auto"}).m == 3);
  CHECK(to_bin({"--n", "3", "--block", "1"}) == matrix_of<std::uint16_t>(3, 1, {{0, 0}, {0, 1}, {1, 2}}, {4, 1, 9}));
  CHECK(to_bin({"--block", "1", "--scale", "7000"}).values == std::vector<std::uint16_t>{28000, 7000, 63000});
  CHECK(to_bin({"--block", "1", "--scale", "0.3", "--round"}).values == std::vector<std::uint16_t>{1, 3});
  CHECK(to_bin({"--block", "1", "--scale", "-1", "--on-overflow", "saturate"}).index.empty());
  CHECK(to_bin({"--block", "1", "--scale", "3/10", "--round"}).values == std::vector<std::uint16_t>{1, 3});
  write_content(folder.file("huge.mtx"), "%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 1e400\n");
  convert({folder.file("huge.mtx"), folder.file("huge.bin"), "--on-overflow", "saturate"});
  CHECK(read_matrix(folder.file("huge.bin")).values == std::vector<std::uint16_t>{65535});
  const ProcessResult counted = run_convert(
      {folder.file("s.mtx"), folder.file("s.bin"), "--scale", "-1/4", "--round", "--on-overflow", "saturate"});
  CHECK(counted.out.find("; 1 rounded, 2 raised to 0, in ") != std::string::npos);  // of -1, -0.25 and -2.25
  to_bin({"--block", "2"});
  const auto to_mtx = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {folder.file("s.bin"), folder.file("t.mtx")});
    convert(options);
    return bytes_of(folder.file("t.mtx"));
  };
  CHECK(to_mtx({"--shape", "2x3"}) == head_of("integer", "2 3", "3") + "1 1 4\n1 2 1\n2 3 9\n");
  CHECK(to_mtx({}) == head_of("integer", "4 4", "3") + "1 1 4\n1 2 1\n2 3 9\n");
  CHECK(to_mtx({"--scale", "0.5"}) == head_of("real", "4 4", "3") + "1 1 2\n1 2 0.5\n2 3 4.5\n");
  const ProcessResult cut = run_convert({folder.file("s.bin"), folder.file("u.mtx"), "--shape", "2x2"});
  CHECK(cut.exit_code == 65);
  CHECK(cut.err.find("the element at row 1, column 2 (counted from 0) is 9, outside the shape 2x2; give a larger") !=
        std::string::npos);
  CHECK(bytes_of(folder.file("u.mtx")) == "");
}

TEST_CASE("convert: kinds of Matrix Market files", "[convert]") {
  const TemporaryFolder folder;
  const auto converted = [&](const std::string& content) {
    write_content(folder.file("k.mtx"), content);
    convert({folder.file("k.mtx"), folder.file("k.bin"), "--block", "1"});
    const BlockMatrix matrix = read_matrix(folder.file("k.bin"));
    std::string elements;
    for (std::size_t b = 0; b < matrix.index.size(); ++b) {
      elements += std::to_string(matrix.index[b].i) + "," + std::to_string(matrix.index[b].j) + "=" +
                  std::to_string(matrix.values[b]) + " ";
    }
    return elements;
  };
  const std::string banner = "%%MatrixMarket matrix ";
  CHECK(converted(banner + "coordinate real general\n\n% c\n2 2 3\n\n1 2 1.5e1\r\n2 1 +3\n% c\n  1\t2 0.1e1 \n") ==
        "0,1=16 1,0=3 ");
  CHECK(converted(banner + "coordinate real general\n2 2 3\n+1 +2 7\n2 1 1e-400\n2 2 -1e-400\n") == "0,1=7 ");
  CHECK(converted(banner + "coordinate integer symmetric\n3 3 2\n2 1 7\n3 3 1") == "0,1=7 1,0=7 2,2=1 ");
  CHECK(converted(banner + "coordinate integer hermitian\n3 3 2\n2 1 7\n3 3 1") == "0,1=7 1,0=7 2,2=1 ");
  CHECK(converted(banner + "coordinate unsigned-integer general\n2 2 2\n1 1 65535\n2 1 3\n") == "0,0=65535 1,0=3 ");
  CHECK(converted(banner + "coordinate pattern symmetric\n2 2 2\n2 1\n2 2\n") == "0,1=1 1,0=1 1,1=1 ");
  CHECK(converted("%%matrixmarket MATRIX Coordinate Integer General\n1 1 0\n") == "");
  CHECK(converted(banner + "coordinate integer general\n1 1 2\n1 1 0\n1 1 -0\n") == "");
}

TEST_CASE("convert: formats are known by content and ending", "[convert]") {
  const TemporaryFolder folder;
  write_content(folder.file("matrix"), kSmall);
  convert({folder.file("matrix"), folder.file("a")});
  CHECK(read_matrix(folder.file("a")).values.size() >= 3);
  CHECK(run_convert({folder.file("a"), folder.file("b.mtx"), "-q"}).out == "");
  // Header and length decide before first bytes and endings do.
  write_matrix(folder.file("as-gzip"), random_matrix(35615, 5, 3, 9, 1));          // n begins as gzip does, 1F 8B
  write_matrix(folder.file("as-zip.mtx"), random_matrix(0x04034B50, 1, 3, 9, 1));  // and as a zip archive, PK 03 04
  write_product(folder.file("c1"), {.n = 4, .m = 2, .index = {{.i = 0, .j = 1}}, .values = {1, 2, 3, 4}});
  for (const std::string name : {"as-gzip", "as-zip.mtx", "c1"}) {
    convert({folder.file(name), folder.file("c.mtx")});
    convert({folder.file(name), folder.file("c2.bin")});
  }
  CHECK(read_matrix(folder.file("c2.bin")).values == std::vector<std::uint16_t>{1, 2, 3, 4});
}

TEST_CASE("convert: memory is 24 bytes for each element, and 20 MB", "[convert]") {
  constexpr std::uint32_t kElements = 1'000'000;
  const TemporaryFolder folder;
  {
    std::ofstream mtx(folder.file("a.mtx"));  // all in one block row, far apart: each side takes the most
    mtx << "%%MatrixMarket matrix coordinate integer general\n2 30000000 " << kElements << "\n";
    for (std::uint32_t e = 0; e < kElements; ++e) mtx << e % 2 + 1 << ' ' << e * 29 + 1 << " 7\n";
  }
  for (const std::string block : {"auto", "2"}) {
    const ProcessResult result = run_convert({folder.file("a.mtx"), folder.file("a.bin"), "--block", block});
    CHECK(result.exit_code == 0);
    CHECK(stayed_below(result, 24 * kElements + 20'000'000));
  }
}
