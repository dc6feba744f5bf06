// spmm-convert: its command line and exit codes; the other programs name it.
#include <filesystem>
#include <string>
#include <vector>

#include "spmm/io.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "test_paths.hpp"
#include "unit/convert/support.hpp"

namespace {

namespace fs = std::filesystem;
using namespace spmm;
using namespace spmm::test;

const std::string kMtx = "%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 1 4\n";

void check_fails(const std::vector<std::string>& arguments, int code, const std::string& message) {
  const ProcessResult result = run_convert(arguments);
  INFO(message << "\n" << result.err);
  CHECK(result.exit_code == code);
  CHECK(result.err.find(message) != std::string::npos);
}

}  // namespace

TEST_CASE("convert: wrong command lines", "[convert]") {
  const TemporaryFolder folder;
  const std::string mtx = folder.file("a.mtx");
  const std::string bin = folder.file("a.bin");
  const std::string out = folder.file("out.bin");
  write_content(mtx, kMtx);
  write_matrix(bin, random_matrix(12, 4, 3, 9, 1));
  check_fails({}, 2, "the input file is missing");
  check_fails({mtx}, 2, "the output file is missing");
  check_fails({mtx, out, "more"}, 2, "unexpected argument \"more\"");
  check_fails({mtx, folder.file("b.mtx")}, 2, "from mtx to mtx: one of the two must be a block-sparse file");
  check_fails({bin, folder.file("b.npy")}, 2, "use the Python package: python3 -m spmm convert IN OUT");
  check_fails({folder.file("none.npz"), out, "--to", "bin"}, 66, "cannot open the file");
  check_fails({bin, folder.file("out")}, 2, "its ending does not say which format is meant");
  check_fails({mtx, mtx, "--to", "bin"}, 2, "the output is the same file as the input");
  check_fails({mtx, bin, "--like", bin}, 2, "the output is the same file as the input");
  check_fails({mtx, out, "--from", "hdf5"}, 2, "\"hdf5\" is not known; give bin or mtx");
  check_fails({mtx, out, "--block", "0"}, 2, "--block: \"0\" is not a whole number from 1 to 64");
  check_fails({mtx, out, "--block", "65"}, 2, "from 1 to 64");
  check_fails({mtx, out, "--n", "1"}, 2, "--n: n = 1 is less than the 2 x 2 of");
  check_fails({mtx, out, "--n", "10", "--block", "4"}, 2, "--n: 10 is not a multiple of --block 4; give 12");
  check_fails({mtx, out, "--n", "4", "--block", "3"}, 2, "4 is not a multiple of --block 3");
  check_fails({mtx, out, "--n", "10", "--like", bin}, 2,
              "--like both say the size; give one of them; two rectangles fit if --n of the first");
  check_fails({mtx, out, "--like", bin, "--block", "5"}, 2, "--block: 5 does not divide n = 12");
  check_fails({mtx, out, "--scale", "0"}, 2, "--scale: \"0\" is not a factor");
  for (const std::string bad : {"many", "1/0", "1/", "/2", "1/2/3", "1/inf", "inf", "nan", "0/5"}) {
    check_fails({mtx, out, "--scale", bad}, 2, "--scale: \"" + bad + "\" is not a factor");
  }
  check_fails({mtx, out, "--on-overflow", "wrap"}, 2, "\"wrap\" is not known; give error or saturate");
  check_fails({mtx, out, "--shape", "2x2"}, 2, "--shape: has no effect from mtx to bin");
  check_fails({bin, folder.file("o.mtx"), "--block", "4"}, 2, "--block: has no effect from bin to mtx");
  check_fails({bin, folder.file("o.mtx"), "--shape", "12"}, 2, "--shape: \"12\" is not a shape");
  check_fails({bin, folder.file("o.mtx"), "--shape", "12x13"}, 2, "--shape: 12x13 is larger than n = 12");
  write_content(folder.file("unknown"), "\x01 of some length");
  check_fails({folder.file("unknown"), out}, 2, "neither its content nor its ending says what it is");
  write_content(folder.file("table.csv"), "1,2,3\n4,5,6\n");
  check_fails({folder.file("table.csv"), out}, 65, "is a text file, expected a block-sparse matrix file");
  check_fails({mtx, folder.file("o.csv")}, 2, "o.csv: ends in .csv");
  check_fails({mtx, folder.file("o.npz")}, 2, "o.npz: ends in .npz");
  CHECK_FALSE(fs::exists(out));
}

TEST_CASE("convert: files that cannot be read or written", "[convert]") {
  const TemporaryFolder folder;
  const std::string mtx = folder.file("a.mtx");
  write_content(mtx, kMtx);
  check_fails({folder.file("none.mtx"), folder.file("o.bin")}, 66, "cannot open the file");
  check_fails({folder.path().string(), folder.file("o.mtx")}, 66, "expected a regular file");
  check_fails({mtx, folder.file("no/folder/o.bin")}, 73, "cannot use the folder");
  check_fails({mtx, folder.path().string(), "--to", "bin"}, 73, "is a directory");
  check_fails({folder.file("a.mtx"), folder.file("o.bin"), "--like", folder.file("none.bin")}, 66, "cannot open");
  write_content(folder.file("cut.bin"), "\x01oo short");
  check_fails({folder.file("cut.bin"), folder.file("o.mtx")}, 65, "byte offset 9: the file has 9 bytes");
  check_fails({mtx, folder.file("o.bin"), "--like", folder.file("cut.bin")}, 65, "the file has 9 bytes");
  check_fails({mtx, folder.file("o.bin"), "--scale", "0.3"}, 65, "line 3: the element at row 1, column 1");
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    CHECK(entry.path().filename().string().substr(0, 1) != "o");
  }
  check_fails({"/dev/null", folder.file("o.bin"), "--from", "mtx"}, 66, "expected a regular file");
  check_fails({mtx, "/dev/full", "--to", "bin"}, 74, "No space left on device");
  REQUIRE(run_convert({mtx, folder.file("a.bin")}).exit_code == 0);
  check_fails({folder.file("a.bin"), "/dev/full", "--to", "mtx"}, 74, "No space left on device");
}

TEST_CASE("convert: help, and formats by content or by option", "[convert]") {
  const ProcessResult help = run_convert({"--help"});
  CHECK(help.exit_code == 0);
  for (const char* part : {"--on-overflow", "--shape", "Examples:", "Exit codes:", "From .bin"}) {
    CHECK(help.out.find(part) != std::string::npos);
  }
  const TemporaryFolder folder;
  write_content(folder.file("matrix"), kMtx);
  CHECK(run_convert({folder.file("matrix"), folder.file("a")}).exit_code == 0);
  CHECK(read_matrix(folder.file("a")).values == std::vector<std::uint16_t>{4});
  CHECK(run_convert({folder.file("a"), folder.file("b"), "--from", "bin", "--to", "mtx", "-q"}).out == "");
  CHECK(content_of(folder.file("b")).find("\n1 1 4\n") != std::string::npos);
  // Header and length decide before first bytes and endings do.
  write_matrix(folder.file("as-gzip"), random_matrix(35615, 5, 3, 9, 1));          // n begins as gzip does, 1F 8B
  write_matrix(folder.file("as-zip.mtx"), random_matrix(0x04034B50, 1, 3, 9, 1));  // and as a zip archive, PK 03 04
  const spmm::ProductMatrix result{.n = 4, .m = 2, .index = {{.i = 0, .j = 1}}, .values = {1, 2, 3, 4}};
  spmm::write_product(folder.file("c1"), result);
  for (const std::string name : {"as-gzip", "as-zip.mtx", "c1"}) {
    CHECK(run_convert({folder.file(name), folder.file("c.mtx")}).exit_code == 0);
    CHECK(run_convert({folder.file(name), folder.file("c2.bin")}).exit_code == 0);
  }
  CHECK(read_matrix(folder.file("c2.bin")).values == std::vector<std::uint16_t>{1, 2, 3, 4});
}

TEST_CASE("spmm, spmm-info and spmm-compare name spmm-convert for files of other formats", "[convert]") {
  const TemporaryFolder folder;
  write_content(folder.file("a.mtx"), kMtx);
  write_content(folder.file("it's.npy"), "\x93NUMPY and more than twelve bytes");
  write_content(folder.file("d.bin.gz"), "\x1f\x8b\x08 and more than twelve bytes");
  write_content(folder.file("c.bin"), "PK\x03\x04 and more than twelve bytes");
  write_matrix(folder.file("b.bin"), random_matrix(12, 4, 3, 9, 1));
  const ProcessOptions there{.env = {}, .folder = folder.path()};
  const std::vector<std::pair<std::string, std::string>> files = {
      {"a.mtx",
       "a.mtx: is a Matrix Market file, expected a block-sparse matrix file; convert it first: spmm-convert a.mtx "
       "a.bin\n"},
      {"it's.npy",
       "it's.npy: is a NumPy array (.npy), expected a block-sparse matrix file; convert it first: python3 -m spmm "
       "convert 'it'\\''s.npy' 'it'\\''s.bin'\n"},
      {"d.bin.gz",
       "d.bin.gz: is compressed by gzip, expected a matrix file; unpack it first: gzip -dc < d.bin.gz > d.bin (an "
       "archive: tar -xzf)\n"},
      {"c.bin",
       "c.bin: is a zip archive, such as SciPy's .npz, expected a block-sparse matrix file; convert it first: "
       "python3 -m spmm convert c.bin c.bin.bin\n"}};
  for (const auto& [name, message] : files) {
    for (const std::vector<std::string>& command : {std::vector<std::string>{"spmm", name, "b.bin", "o.bin"},
                                                    {"spmm", "b.bin", name, "o.bin"},
                                                    {"spmm", "--plan", name, "b.bin"},
                                                    {"spmm-info", name},
                                                    {"spmm-compare", "b.bin", name},
                                                    {"spmm-compare", name, "b.bin"}}) {
      std::vector<std::string> words = command;
      words[0] = SPMM_BIN_DIR "/" + command[0];
      const ProcessResult result = run_process(words, there);
      CHECK(result.exit_code == (command[0] == "spmm-compare" ? 2 : 65));
      CHECK(result.err == command[0] + ": error: " + message);
    }
  }
  CHECK_FALSE(fs::exists(folder.file("o.bin")));
}
