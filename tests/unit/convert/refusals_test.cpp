// spmm-convert: wrong command lines and files that break their format are refused with the place, and nothing is
// written; the other programs name it.
#include <filesystem>
#include <string>
#include <vector>

#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "test_paths.hpp"
#include "unit/convert/support.hpp"

namespace {

namespace fs = std::filesystem;
using namespace spmm;
using namespace spmm::test;

struct Refusal {
  std::vector<std::string> arguments;
  int exit_code;
  std::string place;  ///< a part of the message
};

/// Runs a table; the folder stays as it is.
void check_refused(const TemporaryFolder& folder, const std::vector<Refusal>& table) {
  const auto num_files = [&] { return std::distance(fs::directory_iterator(folder.path()), {}); };
  const auto before = num_files();
  for (const Refusal& one : table) {
    const ProcessResult result = run_convert(one.arguments);
    INFO(one.place << "\n" << result.err);
    CHECK(result.exit_code == one.exit_code);
    CHECK(result.out == "");
    CHECK(result.err.rfind("spmm-convert: error: ", 0) == 0);
    CHECK(result.err.find(one.place) != std::string::npos);
    CHECK(num_files() == before);
  }
}

std::string banner(const std::string& words) {
  return "%%MatrixMarket matrix " + words + "\n";
}

std::string mtx(const std::string& rest) {
  return banner("coordinate integer general") + rest;
}

}  // namespace

TEST_CASE("convert: wrong command lines, files that cannot be read or written", "[convert]") {
  const TemporaryFolder folder;
  const std::string in = folder.file("a.mtx");
  const std::string bin = folder.file("a.bin");
  const std::string out = folder.file("out.bin");
  write_content(in, mtx("2 2 1\n1 1 4\n"));
  write_matrix(bin, random_matrix(12, 4, 3, 9, 1));
  write_content(folder.file("unknown"), "\x01 of some length");
  write_content(folder.file("table.csv"), "1,2,3\n4,5,6\n");
  write_content(folder.file("cut.bin"), "\x01oo short");
  check_refused(folder, {{{}, 2, "input file"},
                         {{in}, 2, "output file"},
                         {{in, out, "more"}, 2, "\"more\""},
                         {{in, folder.file("b.mtx")}, 2, "from .mtx to .mtx"},
                         {{bin, folder.file("b.npy")}, 2, "python3 -m spmm convert"},
                         {{in, folder.file("o.csv")}, 2, "o.csv"},
                         {{bin, bin}, 2, "the same file"},
                         {{in, bin, "--like", bin}, 2, "the same file"},
                         {{in, out, "--block", "0"}, 2, "--block: \"0\" is not a whole number from 1 to 64"},
                         {{in, out, "--n", "1"}, 2, "--n: n = 1 is less than the 2 x 2"},
                         {{in, out, "--n", "10", "--block", "4"}, 2, "give 12"},
                         {{in, out, "--n", "10", "--like", bin}, 2, "--n: and --like"},
                         {{in, out, "--like", bin, "--block", "5"}, 2, "--block: 5 does not divide n = 12"},
                         {{in, out, "--on-overflow", "wrap"}, 2, "\"wrap\" is not known; give error or saturate"},
                         {{in, out, "--shape", "2x2"}, 2, "--shape"},
                         {{in, out, "--type", "u16"}, 2, "--type"},
                         {{bin, folder.file("o.mtx"), "--block", "4"}, 2, "--block"},
                         {{bin, folder.file("o.mtx"), "--round"}, 2, "--round"},
                         {{bin, folder.file("o.mtx"), "--shape", "12"}, 2, "--shape: \"12\""},
                         {{bin, folder.file("o.mtx"), "--shape", "12x13"}, 2, "give at most 12x12"},
                         {{folder.file("none.npz"), out}, 66, "none.npz"},
                         {{folder.path().string(), folder.file("o.mtx")}, 66, "expected a regular file"},
                         {{in, out, "--like", folder.file("none.bin")}, 66, "none.bin"},
                         {{folder.file("unknown"), out}, 65, "unknown"},
                         {{folder.file("table.csv"), out}, 65, "is a text file"},
                         {{folder.file("cut.bin"), folder.file("o.mtx")}, 65, "cut.bin, byte offset 9"},
                         {{in, out, "--like", folder.file("cut.bin")}, 65, "cut.bin"},
                         {{in, out, "--scale", "0.3"}, 65, "a.mtx: the element at row 1, column 1"},
                         {{in, folder.file("no/folder/o.bin")}, 73, "no/folder"},
                         {{in, folder.path().string()}, 73, "is a directory"},
                         {{in, "/dev/full"}, 74, "No space left on device"}});
  for (const std::string bad : {"0", "many", "1/0", "1/", "/2", "1/2/3", "1/inf", "inf", "nan", "0/5"}) {
    check_refused(folder, {{{in, out, "--scale", bad}, 2, "--scale: \"" + bad + "\" is not a factor"}});
  }
}

TEST_CASE("convert: malformed Matrix Market files, and elements that do not fit 16 bits", "[convert]") {
  const std::string real = banner("coordinate real general");
  const std::vector<std::pair<std::string, std::string>> table = {
      {"", "line 1: does not begin with %%MatrixMarket"},
      {"1 1 1\n", "line 1"},
      {"%%MatrixMarket matrix coordinate\n", "line 1: the banner has 3 words"},
      {"%%MatrixMarket vector coordinate integer general\n", "line 1: the object is \"vector\", expected matrix"},
      {banner("array integer general"), "line 1: the layout"},
      {banner("coordinate complex general") + "1 1 1\n1 1 1 0\n", "line 1: the field is \"complex\""},
      {banner("coordinate real skew-symmetric") + "2 2 1\n2 1 1\n", "line 1: the symmetry"},
      {banner("coordinate real hermitian") + "2 3 1\n1 1 1\n", "line 2: a symmetric matrix of 2 x 3"},
      {mtx("% nothing else\n"), "line 2: the line of the sizes is missing"},
      {mtx("2 2\n1 1 1\n"), "line 2: 2 sizes, expected 3"},
      {mtx("\n%\n2 x 1\n1 1 1\n"), "line 4: the size \"x\""},
      {mtx("0 2 0\n"), "line 2: the matrix has no rows"},
      {mtx("4294967296 2 1\n1 1 1\n"), "line 2: 4294967296 x 2 is too large"},
      {mtx("9 9 1000000000\n1 1 1\n"), "line 2: 1000000000 elements are announced, more than the 6 bytes"},
      {mtx("2 2 1\n0 1 1\n"), "line 3: row 0 is out of range, expected 1 to 2"},
      {mtx("2 2 2\n1 1 1\n3 1 1\n"), "line 4: row 3 is out of range"},
      {mtx("2 2 1\n1 9 1\n"), "line 3: column 9 is out of range"},
      {mtx("2 2 1\n99999999999999999999 1 1\n"), "line 3: \"99999999999999999999\""},
      {mtx("2 2 1\n1 1.5 1\n"), "line 3: \"1.5\" is not the number of a column"},
      {mtx("2 2 1\n1 1\n"), "line 3: \"\" is not a number"},
      {mtx("2 2 1\n1 1 x\n"), "line 3: \"x\" is not a number"},
      {mtx("2 2 1\n1 1 1 1\n"), "line 3: \"1\" follows"},
      {mtx("2 2 2\n1 1 1\n"), ": 1 elements, 2 were announced"},
      {mtx("2 2 1\n1 1 1\n\n2 2 1\n"), "line 5: more than the 1 elements"},
      {real + "2 2 1\n1 1 1e400\n", "is inf, which is above 65535"},
      {real + "2 2 1\n1 1 " + std::string("1\0x", 3) + "\n", "line 3: a zero byte, expected text; check"},
      {mtx("2 2 1\n+-1 1 1\n"), "line 3: \"+-1\" is not the number of a row"},
      {real + "2 2 1\n1 1 1D3\n", "line 3: \"1D3\""},
      {banner("coordinate pattern general") + "2 2 1\n1 1 1\n", "line 3: \"1\" follows"},
      {mtx("2 2 1\n1 1 " + std::string(9'000'000, '1') + "\n"), "line 3: more than "},
      {"\x1f\x8b\x08 packed", "gzip -dc < "},
      {mtx("3 3 2\n1 1 1\n2 3 -4\n"), ": the element at row 2, column 3 (counted from 1) is -4"},
      {mtx("3 3 1\n1 1 65536\n"), ": the element at row 1, column 1 (counted from 1) is 65536"},
      {real + "3 3 1\n1 1 0.5\n", "is 0.5, which is not a whole number"},
      {real + "3 3 1\n1 1 nan\n", "is nan, which is not a number"},
      {real + "3 3 1\n1 1 -inf\n", "is -inf, which is negative"},
      {mtx("3 3 3\n1 2 65535\n3 3 1\n1 2 1\n"), ": the sum of 2 elements at row 1, column 2"},
      {mtx("3 3 2\n1 2 9007199254740993\n1 2 -9007199254740992\n"), "2^53"},
      {banner("coordinate integer symmetric") + "3 3 1\n3 1 -1\n", ": the element at row 1, column 3"}};
  const TemporaryFolder folder;
  const std::string in = folder.file("in.mtx");
  const std::string out = folder.file("out.bin");
  write_content(out, "what was there before");
  for (const auto& [content, place] : table) {
    write_content(in, content);
    check_refused(folder, {{{in, out}, 65, place}});
    CHECK(bytes_of(out) == "what was there before");
  }
}

TEST_CASE("convert: blocks in any order, outside of the matrix, and twice", "[convert]") {
  const TemporaryFolder folder;
  const std::string path = folder.file("c.bin");
  const auto write = [&](std::vector<BlockIndex> places) {
    std::vector<std::uint32_t> values(places.size(), 7);
    write_product(path, {.n = 4, .m = 1, .index = std::move(places), .values = std::move(values)});
  };
  for (const std::string name : {"out.bin", "out.mtx"}) {
    const std::vector<std::string> words = {path, folder.file(name)};
    write({{.i = 2, .j = 0}, {.i = 0, .j = 1}, {.i = 2, .j = 3}});
    CHECK(run_convert(words).exit_code == 0);
    fs::remove(folder.file(name));
    write({{.i = 0, .j = 1}, {.i = 2, .j = 4}});
    check_refused(folder, {{words, 65, "c.bin, record 1 (byte offset 24)"}});
    write({{.i = 0, .j = 1}, {.i = 0, .j = 1}});
    check_refused(folder, {{words, 65, "c.bin, record 1 (byte offset 24)"}});
    write({{.i = 2, .j = 1}, {.i = 0, .j = 1}, {.i = 2, .j = 1}});
    check_refused(folder, {{words, 65, "c.bin, record 2 (byte offset 36)"}});
  }
}

TEST_CASE("spmm, spmm-info and spmm-compare name the command that converts a file of another format", "[convert]") {
  const TemporaryFolder folder;
  write_content(folder.file("a.mtx"), mtx("2 2 1\n1 1 4\n"));
  write_content(folder.file("it's.npy"), "\x93NUMPY and more than twelve bytes");
  write_content(folder.file("d.bin.gz"), "\x1f\x8b\x08 and more than twelve bytes");
  write_content(folder.file("c.bin"), "PK\x03\x04 and more than twelve bytes");
  write_matrix(folder.file("b.bin"), random_matrix(12, 4, 3, 9, 1));
  const std::vector<std::pair<std::string, std::string>> files = {
      {"a.mtx", "spmm-convert a.mtx a.bin\n"},
      {"it's.npy", "python3 -m spmm convert 'it'\\''s.npy' 'it'\\''s.bin'\n"},
      {"d.bin.gz", "gzip -dc < d.bin.gz > d.bin"},
      {"c.bin", "python3 -m spmm convert c.bin c.bin.bin\n"}};
  for (const auto& [name, command] : files) {
    for (std::vector<std::string> words : {std::vector<std::string>{"spmm", name, "b.bin", "o.bin"},
                                           {"spmm", "b.bin", name, "o.bin"},
                                           {"spmm", "--plan", name, "b.bin"},
                                           {"spmm-info", name},
                                           {"spmm-compare", name, "b.bin"}}) {
      const int code = words[0] == "spmm-compare" ? 2 : 65;
      words[0] = SPMM_BIN_DIR "/" + words[0];
      const ProcessResult result = run_process(words, {.env = {}, .folder = folder.path()});
      CHECK(result.exit_code == code);
      CHECK(result.err.find(command) != std::string::npos);
    }
  }
  CHECK_FALSE(fs::exists(folder.file("o.bin")));
}
