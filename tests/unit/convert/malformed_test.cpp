// spmm-convert: files that break their format are refused with the place, and nothing is written.
#include <filesystem>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "unit/convert/support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;

struct BadText {
  std::string content;
  std::string message;  ///< a part of it
};

constexpr const char* kOld = "what was there before";

void check_refused(const std::string& ending, const std::vector<BadText>& cases) {
  const TemporaryFolder folder;
  const std::string in = folder.file("in." + ending);
  const std::string out = folder.file("out.bin");
  write_content(out, kOld);
  for (const BadText& bad : cases) {
    write_content(in, bad.content);
    const ProcessResult result = run_convert({in, out});
    INFO(bad.message << "\n" << result.err);
    CHECK(result.exit_code == 65);
    CHECK(result.out == "");
    CHECK(result.err.find("spmm-convert: error: " + in) == 0);
    CHECK(result.err.find(bad.message) != std::string::npos);
    CHECK(content_of(out) == kOld);
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2);
}

std::string banner(const std::string& words) {
  return "%%MatrixMarket matrix " + words + "\n";
}

std::string mtx(const std::string& rest) {
  return banner("coordinate integer general") + rest;
}

}  // namespace

TEST_CASE("convert: malformed heads of Matrix Market files", "[convert]") {
  check_refused(
      "mtx",
      {{"", "line 1: does not begin with %%MatrixMarket"},
       {"1 1 1\n", "line 1: does not begin with %%MatrixMarket"},
       {"%%MatrixMarket matrix coordinate\n", "line 1: the banner has 3 words, expected 5"},
       {"%%MatrixMarket vector coordinate integer general\n", "line 1: the object is \"vector\", expected matrix"},
       {banner("dense integer general"), "line 1: the layout is \"dense\", expected coordinate, array"},
       {banner("coordinate complex general") + "1 1 1\n1 1 1 0\n",
        "line 1: the field is \"complex\", expected integer, unsigned-integer, real"},
       {banner("coordinate rational general"), "line 1: the field is \"rational\""},
       {banner("coordinate real skew-symmetric") + "2 2 1\n2 1 1\n",
        "line 1: the symmetry is \"skew-symmetric\", expected general"},
       {banner("coordinate complex hermitian") + "2 2 1\n2 1 1 0\n",
        "line 1: the field is \"complex\", expected integer, unsigned-integer, real"},
       {banner("coordinate real hermitian") + "2 3 1\n1 1 1\n", "line 2: a symmetric matrix of 2 x 3"},
       {banner("coordinate integer Hermitian") + "2 2 1\n2 1 -1\n", "line 3: the element at row 1, column 2"},
       {banner("coordinate real diagonal"), "line 1: the symmetry is \"diagonal\""},
       {banner("array pattern general") + "1 1\n", "line 1: an array with field pattern has no elements"},
       {mtx("% nothing else\n"), "line 2: the line of the sizes is missing"},
       {mtx("2 2\n1 1 1\n"), "line 2: 2 sizes, expected 3"},
       {mtx("\n%\n2 x 1\n1 1 1\n"), "line 4: the size \"x\" is not a whole number"},
       {mtx("0 2 0\n"), "line 2: the matrix has no rows or no columns"},
       {mtx("4294967296 2 1\n1 1 1\n"), "line 2: 4294967296 x 2 is too large"},
       {banner("coordinate real symmetric") + "2 3 1\n1 1 1\n", "line 2: a symmetric matrix of 2 x 3"},
       {mtx("9 9 1000000000\n1 1 1\n"), "line 2: 1000000000 elements are announced, more than the 6 bytes"},
       {banner("array real general") + "100000 100000\n1\n", "line 2: 10000000000 elements are announced"}});
}

TEST_CASE("convert: malformed lines of Matrix Market files", "[convert]") {
  check_refused(
      "mtx",
      {{mtx("2 2 1\n0 1 1\n"), "line 3: row 0 is out of range, expected 1 to 2"},
       {mtx("2 2 2\n1 1 1\n3 1 1\n"), "line 4: row 3 is out of range, expected 1 to 2"},
       {mtx("2 2 1\n1 9 1\n"), "line 3: column 9 is out of range"},
       {mtx("2 2 1\n99999999999999999999 1 1\n"), "line 3: \"99999999999999999999\" is not the number of a row"},
       {mtx("2 2 1\none 1 1\n"), "line 3: \"one\" is not the number of a row"},
       {mtx("2 2 1\n1 1.5 1\n"), "line 3: \"1.5\" is not the number of a column"},
       {mtx("2 2 1\n1 1\n"), "line 3: \"\" is not a number of 64 bits"},
       {mtx("2 2 1\n1 1 x\n"), "line 3: \"x\" is not a number of 64 bits"},
       {mtx("2 2 1\n1 1 1.5\n"),
        "line 3: the element at row 1, column 1 (counted from 1) is 1.5, which is not a whole"},
       {mtx("2 2 1\n1 1 1 1\n"), "line 3: \"1\" follows, expected the end of the line"},
       {mtx("2 2 2\n1 1 1\n"), ": 1 elements, 2 were announced"},
       {mtx("2 2 1\n1 1 1\n\n2 2 1\n"), "line 5: more than the 1 elements that were announced"},
       {banner("coordinate real general") + "2 2 1\n1 1 1e400\n", "line 3: \"1e400\" is not a number of 64 bits"},
       {banner("coordinate real general") + "2 2 1\n1 1 1D3\n", "line 3: \"1D3\" is not a number of 64 bits"},
       {banner("coordinate pattern general") + "2 2 1\n1 1 1\n", "line 3: \"1\" follows"},
       {banner("array real general") + "2 2\n1 2\n3\n", ": 3 elements, 4 were announced"},
       {banner("array real symmetric") + "2 2\n1 2\n3\n4\n", "line 5: more than the 3 elements"},
       {"\x1f\x8b\x08 packed", "is compressed by gzip, expected a matrix file; unpack it first: gzip -dc < "}});
}

TEST_CASE("convert: elements that do not fit 16 bits", "[convert]") {
  const std::string real = banner("coordinate real general");
  check_refused(
      "mtx",
      {{mtx("3 3 2\n1 1 1\n2 3 -4\n"),
        "line 4: the element at row 2, column 3 (counted from 1) is -4, which is negative"},
       {mtx("3 3 1\n1 1 65536\n"), "line 3: the element at row 1, column 1 (counted from 1) is 65536, which is above"},
       {mtx("3 3 1\n1 1 99999999999999999999\n"), "is 1e+20, which is above 65535"},
       {real + "3 3 1\n1 1 0.5\n",
        "line 3: the element at row 1, column 1 (counted from 1) is 0.5, which is not a whole"},
       {real + "3 3 1\n1 1 nan\n",
        "line 3: the element at row 1, column 1 (counted from 1) is nan, which is not a number"},
       {real + "3 3 1\n1 1 -inf\n", "is -inf, which is negative"},
       {mtx("3 3 3\n1 2 65535\n3 3 1\n1 2 1\n"),
        "line 3 and line 5: the sum of 2 elements at row 1, column 2 (counted from 1) is 65536"},
       {mtx("3 3 2\n1 2 9007199254740993\n1 2 -9007199254740992\n"), "which has a part of 2^53 or more"},
       {banner("coordinate integer symmetric") + "3 3 1\n3 1 -1\n", "line 3: the element at row 1, column 3"}});
}
