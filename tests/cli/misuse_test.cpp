// Every wrong command line and every bad file: exact exit code, one line that names place and hint, nothing written.
#include <algorithm>
#include <filesystem>

#include "cli/exit_codes.hpp"
#include "cli/workplace.hpp"
#include "spmm/multiply.hpp"
#include "spmm/types.hpp"
#include "support/catch.hpp"
#include "test_paths.hpp"

namespace {

using namespace spmm::test;
using namespace spmm::cli;
namespace fs = std::filesystem;
using Words = std::vector<std::string>;

struct Misuse {
  Words arguments;
  int exit_code;
  Words parts;  // of the message
  Variables variables = {};
};

/// Runs a table; after each line the folder must look as before.
void check_table(const std::vector<Misuse>& table) {
  const Words names = names_in(".");
  for (const Misuse& misuse : table) {
    const ProcessResult result = spmm_command(misuse.arguments, misuse.variables);
    std::string line;
    for (const auto& [name, value] : misuse.variables) line += name + "=" + value + " ";
    line += "spmm";
    for (const std::string& word : misuse.arguments) line += " " + word;
    INFO(line << "\n" << result.err);
    CHECK(result.exit_code == misuse.exit_code);
    CHECK(result.out.empty());
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
    CHECK(result.err.rfind("spmm: error: ", 0) == 0);
    for (const std::string& part : misuse.parts) {
      INFO("expected: " << part);
      CHECK(result.err.find(part) != std::string::npos);
    }
    CHECK(bytes_of("old.bin") == kOldContent);
    CHECK(names_in(".") == names);
  }
}

}  // namespace

TEST_CASE("wrong command lines") {
  const Workplace workplace;
  check_table({
      {{}, kUsage, {"left operand (A) is missing", "--help"}},
      {{"a.bin"}, kUsage, {"right operand (B) is missing", "--help"}},
      {{"a.bin", "b.bin"}, kUsage, {"output (OUT) is missing", "--help"}},
      {{"a.bin", "b.bin", "c.bin", "d.bin"}, kUsage, {"unexpected argument \"d.bin\"", "spmm --help"}},
      {{"--plan", "a.bin"}, kUsage, {"right operand (B) is missing"}},
      {{"--bogus", "a.bin", "b.bin", "c.bin"}, kUsage, {"bogus", "spmm --help"}},
      {{"--verfy", "3", "a.bin", "b.bin", "c.bin"}, kUsage, {"--verfy", "did you mean --verify?", "spmm --help"}},
      {{"-threads", "3", "a.bin", "b.bin", "c.bin"}, kUsage, {"-threads", "did you mean --threads?"}},
      {{"-", "b.bin", "c.bin"}, kUsage, {"left operand (A) is -", "store it in a file first"}},
      {{"a.bin", "-", "c.bin"}, kUsage, {"right operand (B) is -", "store it in a file first"}},
      {{"a.bin", "b.bin", "-"}, kUsage, {"output (OUT) is -", "the header is written last", "name a file"}},
      {{"-x", "a.bin", "b.bin", "c.bin"}, kUsage, {"-x: is not an option", "spmm --help"}},
      {{"-j", "2", "a.bin", "b.bin", "c.bin"}, kUsage, {"-j: is not an option, did you mean --threads?"}},
      {{"-qj2", "a.bin", "b.bin", "c.bin"}, kUsage, {"-j: is not an option, did you mean --threads?"}},
      {{"--threads", "-3", "-o", "o.bin", "a.bin", "b.bin"},
       kUsage,
       {"-o: is not an option; write spmm [options] A B OUT; see spmm --help"}},
      {{"-V"}, kUsage, {"-V: is not an option, did you mean --version?"}},
      {{"hlep"}, kUsage, {"hlep: is neither a file nor a subcommand, did you mean help?", "spmm --help lists"}},
      {{"---"}, kUsage, {"---: is not an option"}},
      {{"infoo", "a.bin"}, kUsage, {"infoo: is neither a file nor a subcommand, did you mean info?"}},
      {{"verfiy", "a.bin", "b.bin", "c.bin", "-q"}, kUsage, {"verfiy", "did you mean verify?"}},
      {{"plan", "a.bin", "b.bin"}, kUsage, {"plan: is neither a file nor a subcommand, did you mean --plan?"}},
      {{"a.bin", "b.bin", "c.bin", "--threads"}, kUsage, {"threads"}},
      {{"--threads", "1", "--threads", "2", "a.bin", "b.bin", "c.bin"}, kUsage, {"threads"}},
      {{"-q", "-q", "a.bin", "b.bin", "c.bin"}, kUsage, {"quiet"}},
      {{"--plan=maybe", "a.bin", "b.bin"}, kUsage, {"maybe", "spmm --help"}},
      {{"--backend", "gpu", "a.bin", "b.bin", "c.bin"},
       kUsage,
       {"--backend", "\"gpu\"", "did you mean cuda?", "give auto, cuda or cpu"}},
      {{"--kernel", "fast", "a.bin", "b.bin", "c.bin"},
       kUsage,
       {"--kernel", "\"fast\"", "two-pointer", "binary-search", "host-driven", "row-merge", "reference"}},
      {{"--backend", "cpu", "--kernel", "two-pointer", "a.bin", "b.bin", "c.bin"},
       kUsage,
       {"two-pointer", "belongs to backend cuda, not cpu", "--backend"}},
      {{"--devices", "0,1,0", "a.bin", "b.bin", "c.bin"}, kUsage, {"--devices", "device 0 is listed twice"}},
      {{"--devices", "0,x", "a.bin", "b.bin", "c.bin"}, kUsage, {"--devices", "\"x\""}},
      {{"--devices", "0,", "a.bin", "b.bin", "c.bin"}, kUsage, {"--devices", "\"\""}},
      {{"--devices", "0,1", "--device", "0", "a.bin", "b.bin", "c.bin"},
       kUsage,
       {"--devices", "together with --device"}},
      {{"--devices", "all", "--backend", "cpu", "a.bin", "b.bin", "c.bin"}, kUsage, {"--devices", "backend cuda"}},
      {{"--threads", "-3", "a.bin", "b.bin", "c.bin"},
       kUsage,
       {"--threads: \"-3\" is not a whole number from 0 to 4096"}},
      {{"--threads", "two", "a.bin", "b.bin", "c.bin"}, kUsage, {"--threads", "\"two\""}},
      {{"--threads", "2x", "a.bin", "b.bin", "c.bin"}, kUsage, {"--threads", "\"2x\""}},
      {{"--threads=", "a.bin", "b.bin", "c.bin"}, kUsage, {"--threads", "\"\""}},
      {{"--threads", "99999999999", "a.bin", "b.bin", "c.bin"}, kUsage, {"--threads", "0 to 4096"}},
      {{"--device", "-2", "a.bin", "b.bin", "c.bin"}, kUsage, {"--device", "\"-2\""}},
      {{"--device", "0.5", "a.bin", "b.bin", "c.bin"}, kUsage, {"--device", "\"0.5\""}},
      {{"--verify", "ful", "a.bin", "b.bin", "c.bin"}, kUsage, {"--verify", "did you mean full?"}},
      {{"--verify", "-3", "a.bin", "b.bin", "c.bin"}, kUsage, {"--verify", "\"-3\""}},
      {{"--verify", "10%", "a.bin", "b.bin", "c.bin"},
       kUsage,
       {"--verify", "\"10%\"", "give full or a number of blocks"}},
      {{"--verify", "all", "a.bin", "b.bin", "c.bin"}, kUsage, {"--verify", "\"all\""}},
      {{"--verify", "full", "--verify-seed", "0", "a.bin", "b.bin", "c.bin"},
       kUsage,
       {"--verify-seed", "from 1 to 2^64 - 1"}},
      {{"--verify", "1.5", "a.bin", "b.bin", "c.bin"}, kUsage, {"--verify", "\"1.5\""}},
      {{"--memory-limit", "8Q", "a.bin", "b.bin", "c.bin"}, kUsage, {"--memory-limit", "8Q"}},
      {{"--memory-limit", "0", "a.bin", "b.bin", "c.bin"}, kUsage, {"--memory-limit"}},
      {{"--memory-limit", "99999999999999G", "a.bin", "b.bin", "c.bin"}, kUsage, {"--memory-limit"}},
      {{"--memory-limit", "-1G", "a.bin", "b.bin", "c.bin"}, kUsage, {"--memory-limit", "-1G"}},
      {{"--progress", "sometimes", "a.bin", "b.bin", "c.bin"}, kUsage, {"--progress", "give auto, always or never"}},
      {{"-q", "-v", "a.bin", "b.bin", "c.bin"}, kUsage, {"--quiet", "--verbose"}},
      {{"--report", "a.bin", "a.bin", "b.bin", "c.bin"}, kUsage, {"--report", "same file as a.bin"}},
      {{"--report", "./c.bin", "a.bin", "b.bin", "c.bin"}, kUsage, {"--report", "same file as c.bin"}},
      {{"--report", "old.bin", "a.bin", "b.bin", "old.bin"}, kUsage, {"--report", "same file as old.bin"}},
      {{"--report=", "a.bin", "b.bin", "c.bin"}, kUsage, {"--report"}},
      {{"a.bin", "b.bin", "c.mtx"}, kUsage, {"c.mtx: ends in .mtx", "write c.bin", "spmm-convert c.bin c.mtx"}},
      {{"a.bin", "b.bin", "x y.npy"}, kUsage, {"ends in .npy", "python3 -m spmm convert 'x y.bin' 'x y.npy'"}},
      {{"a.bin", "b.bin", "c.csv"}, kUsage, {"ends in .csv", "write c.bin", "spmm-convert c.bin c.mtx"}},
      {{"a.bin", "b.bin", "c.txt"}, kUsage, {"ends in .txt", "spmm-convert c.bin c.mtx"}},
      {{"a.bin", "b.bin", "c.h5"}, kUsage, {"ends in .h5", "python3 -m spmm convert c.bin c.npz"}},
      {{"--parts", "2", "a.bin", "b.bin", "c.bin"}, kUsage, {"--parts"}},
      {{"none.bin", "b.bin", "c.mtx"}, kUsage, {"ends in .mtx"}},
  });
}

TEST_CASE("--backend cuda of another kernel, or in a build without CUDA") {
  const Workplace workplace;
  const Words words = {"--backend", "cuda", "--kernel", "row-merge", "a.bin", "b.bin", "c.bin"};
  if (spmm::has_backend(spmm::Backend::cuda)) {
    check_table({{words, kUsage, {"row-merge", "backend cpu"}}});
  } else {
    check_table({{words, kUnavailable, {"without CUDA", "install CUDA 12 or newer", "demo.sh --cuda"}}});
  }
}

TEST_CASE("bad environment variables are named") {
  const Workplace workplace;
  const Words files = {"a.bin", "b.bin", "c.bin"};
  check_table({
      {files, kUsage, {"SPMM_THREADS", "\"many\""}, {{"SPMM_THREADS", "many"}}},
      {files, kUsage, {"SPMM_BACKEND", "\"gpu\"", "give auto, cuda or cpu"}, {{"SPMM_BACKEND", "gpu"}}},
      {files, kUsage, {"SPMM_MEMORY_LIMIT", "lots"}, {{"SPMM_MEMORY_LIMIT", "lots"}}},
  });
}

TEST_CASE("bad files") {
  Workplace workplace;
  workplace.add_bad_files();
  write_bytes("table.csv", "1,2,3\n4,5,6\n7,8,9\n");
  write_bytes("few.txt", "1 2\n");
  write_bytes("d.h5", std::string("\x89HDF\r\n\x1a\n\0\0\0\0\0\x08", 14));
  check_table({
      {{"table.csv", "b.bin", "c.bin"}, kBadData, {"table.csv: is a text file", "Matrix Market", "spmm-convert"}},
      {{"a.bin", "few.txt", "c.bin"}, kBadData, {"few.txt: is a text file", "spmm-convert"}},
      {{"d.h5", "b.bin", "c.bin"}, kBadData, {"d.h5: is an HDF5 file", ".npz", "python3 -m spmm convert"}},
      {{"missing.bin", "b.bin", "c.bin"}, kNoInput, {"missing.bin", "check the path"}},
      {{"a.bin", "missing.bin", "c.bin"}, kNoInput, {"missing.bin", "check the path"}},
      {{"", "b.bin", "c.bin"}, kUsage, {"left operand (A) is missing"}},
      {{"folder", "b.bin", "c.bin"}, kNoInput, {"folder", "expected a regular file"}},
      {{"a.bin", "/dev/null", "c.bin"}, kNoInput, {"/dev/null", "expected a regular file"}},
      {{"a.bin/x", "b.bin", "c.bin"}, kNoInput, {"a.bin/x", "check the path"}},
      {{"empty.bin", "b.bin", "c.bin"}, kBadData, {"empty.bin, byte offset 0", "0 bytes", "12"}},
      {{"a.bin", "short.bin", "c.bin"}, kBadData, {"short.bin, byte offset 11", "11 bytes", "12"}},
      {{"m0.bin", "b.bin", "c.bin"}, kBadData, {"m0.bin, byte offset 4", "m is 0", "1 to 64"}},
      {{"m65.bin", "b.bin", "c.bin"}, kBadData, {"m65.bin, byte offset 4", "m is 65", "smaller blocks"}},
      {{"n0.bin", "b.bin", "c.bin"}, kBadData, {"n0.bin, byte offset 0", "n is 0"}},
      {{"odd.bin", "b.bin", "c.bin"}, kBadData, {"odd.bin, byte offset 0", "n is 66", "multiple of m = 4", "pad"}},
      {{"full.bin", "b.bin", "c.bin"}, kBadData, {"full.bin, byte offset 8", "blocks is 5", "at most 4"}},
      {{"cut.bin", "b.bin", "c.bin"}, kBadData, {"cut.bin, record 2 (byte offset 92)", "expected 132 bytes"}},
      {{"a.bin", "cut1.bin", "c.bin"}, kBadData, {"cut1.bin, record 1 (byte offset 52)", "offset 91"}},
      {{"norecords.bin", "b.bin", "c.bin"}, kBadData, {"norecords.bin, record 0 (byte offset 12)", "cut off"}},
      {{"huge.bin", "b.bin", "c.bin"}, kBadData, {"huge.bin, record 0", "expected 171798691812 bytes"}},
      {{"long.bin", "b.bin", "c.bin"}, kBadData, {"long.bin, byte offset 92", "1 bytes too many"}},
      {{"row.bin", "b.bin", "c.bin"}, kBadData, {"row.bin, record 1 (byte offset 52)", "(16, 0)", "0 to 15"}},
      {{"a.bin", "column.bin", "c.bin"}, kBadData, {"column.bin, record 1 (byte offset 52)", "(0, 4294967295)"}},
      {{"twice.bin", "b.bin", "c.bin"}, kBadData, {"twice.bin, record 2 (byte offset 92)", "(2, 3)", "record 0"}},
      {{"a.bin", "twice.bin", "old.bin"}, kBadData, {"twice.bin, record 2 (byte offset 92)", "(2, 3)", "record 0"}},
      {{"--kernel", "reference", "twice.bin", "b.bin", "c.bin"}, kBadData, {"twice.bin, record 2", "(2, 3)"}},
      {{"--kernel", "reference", "a.bin", "row.bin", "c.bin"}, kBadData, {"row.bin, record 1", "(16, 0)"}},
      {{"bigendian.bin", "b.bin", "c.bin"}, kBadData, {"bigendian.bin, byte offset 4", "little-endian"}},
      {{"a.bin", "n128.bin", "c.bin"}, kBadData, {"a.bin and n128.bin", "n = 64", "n = 128", "the same n and m"}},
      {{"m8.bin", "b.bin", "old.bin"}, kBadData, {"m8.bin and b.bin", "m = 8", "m = 4"}},
      {{"product.bin", "b.bin", "c.bin"},
       kBadData,
       {"product.bin", "elements of 32 bits, a result", "spmm-convert product.bin product16.bin"}},
      {{"--plan", "cut.bin", "b.bin"}, kBadData, {"cut.bin, record 2"}},
      {{"--plan", "a.bin", "n128.bin"}, kBadData, {"a.bin and n128.bin"}},
  });
}

TEST_CASE("outputs that cannot be made") {
  Workplace workplace;
  workplace.add_bad_files();
  check_table({
      {{"a.bin", "b.bin", "none/c.bin"}, kCannotCreate, {"none/c.bin", "mkdir -p none"}},
      {{"a.bin", "b.bin", "folder"}, kCannotCreate, {"folder", "folder/out.bin"}},
      {{"a.bin", "b.bin", "a.bin/c.bin"}, kCannotCreate, {"a.bin/c.bin"}},
      {{"a.bin", "b.bin", "/proc/c.bin"}, kCannotCreate, {"/proc/c.bin"}},
      {{"--no-clobber", "a.bin", "b.bin", "old.bin"}, kCannotCreate, {"old.bin", "exists", "another output path"}},
      {{"--report", "none/r.json", "a.bin", "b.bin", "old.bin"}, kCannotCreate, {"none/r.json", "mkdir -p none"}},
      {{"--report", "folder", "a.bin", "b.bin", "old.bin"}, kCannotCreate, {"folder"}},
      {{"a.bin", "b.bin", "/dev/full"}, kIoError, {"/dev/full", "No space left"}},
  });
}

TEST_CASE("a result that is not expected to fit the disk: a warning, with --strict-space an error before any work") {
  const Workplace workplace;
  // 136 GB of holes each; their product would have more than 100 TB.
  const spmm::MatrixHeader header{.n = 8'000'000, .m = 8, .num_blocks = 1'000'000'000};
  for (const char* name : {"left.bin", "right.bin"}) {
    write_bytes(name, std::string(reinterpret_cast<const char*>(&header), sizeof header));
    fs::resize_file(name, spmm::kHeaderBytes + header.num_blocks * spmm::input_record_bytes(header.m));
  }
  const auto run = [](Words options) {
    options.insert(options.end(), {"--backend", "cpu", "--memory-limit", "300k", "left.bin", "right.bin", "c.bin"});
    return spmm_command(options);
  };
  const ProcessResult strict = run({"--strict-space"});
  CHECK(strict.exit_code == kCannotCreate);
  CHECK(strict.err.find(" TB if the blocks are evenly spread, and ") != std::string::npos);
  const ProcessResult warned = run({});
  CHECK(warned.exit_code == kMemory);  // what fails afterwards
  CHECK(warned.err.rfind("spmm: warning: c.bin: the result takes about ", 0) == 0);
  CHECK_FALSE(fs::exists("c.bin"));
  const ProcessResult fits = spmm_command({"--strict-space", "a.bin", "b.bin", "c.bin"});
  CHECK(fits.exit_code == kOk);
  CHECK(fits.err.empty());
}

TEST_CASE("--strict-space counts the scratch file of a product out of core") {
  const Workplace workplace;
  const std::uint64_t free_bytes = fs::space(".").available;
  constexpr std::uint64_t kMostBytes = 800'000'000'000;  // with more the result alone would not fit
  if (free_bytes > kMostBytes) return;
  spmm::MatrixHeader header{.n = 62'000'000u * 64, .m = 64};  // so many rows that the result is small
  const std::uint64_t record = spmm::input_record_bytes(header.m);
  header.num_blocks = static_cast<std::uint32_t>(free_bytes / record * 11 / 20);
  for (const char* name : {"left.bin", "right.bin"}) {
    write_bytes(name, std::string(reinterpret_cast<const char*>(&header), sizeof header));
    fs::resize_file(name, spmm::kHeaderBytes + header.num_blocks * record);  // a hole
  }
  const ProcessResult result =
      spmm_command({"--strict-space", "--backend", "cpu", "--memory-limit", "2G", "left.bin", "right.bin", "c.bin"});
  INFO(result.err);
  CHECK(result.exit_code == kCannotCreate);
  CHECK(result.err.find("; a scratch file of ") != std::string::npos);
  CHECK_FALSE(fs::exists("c.bin"));
}

TEST_CASE("an output that is an input is refused and stays as it is") {
  const Workplace workplace;
  fs::create_symlink("a.bin", "soft.bin");
  fs::create_hard_link("b.bin", "hard.bin");
  const std::string a = bytes_of("a.bin");
  const std::string b = bytes_of("b.bin");
  check_table({
      {{"a.bin", "b.bin", "a.bin"}, kUsage, {"a.bin", "same file as the input a.bin", "another name"}},
      {{"a.bin", "b.bin", "./b.bin"}, kUsage, {"same file as the input b.bin"}},
      {{"a.bin", "b.bin", "soft.bin"}, kUsage, {"soft.bin", "same file as the input a.bin"}},
      {{"a.bin", "b.bin", "hard.bin"}, kUsage, {"hard.bin", "same file as the input b.bin"}},
      {{"soft.bin", "b.bin", "a.bin"}, kUsage, {"same file as the input soft.bin"}},
      {{"a.bin", "a.bin", "a.bin"}, kUsage, {"same file"}},
  });
  CHECK(bytes_of("a.bin") == a);
  CHECK(bytes_of("b.bin") == b);
}

TEST_CASE("what does not fit the memory limit is refused with need and have") {
  const Workplace workplace;
  check_table({
      {{"--backend", "cpu", "--memory-limit", "1000", "a.bin", "b.bin", "old.bin"},
       kMemory,
       {"host memory", "needs", "limit leaves", "(1000 bytes)", "--memory-limit"}},
      {{"--backend", "cpu", "--kernel", "reference", "--memory-limit", "1k", "a.bin", "b.bin", "c.bin"},
       kMemory,
       {"needs", "--memory-limit"}},
      {{"--backend", "cpu", "--plan", "--memory-limit", "1000", "a.bin", "b.bin"}, kMemory, {"(1000 bytes)"}},
  });
}

TEST_CASE("standard streams that are closed are no file of the product") {
  const Workplace workplace;
  const std::string a = bytes_of("a.bin");
  REQUIRE(spmm_command({"a.bin", "b.bin", "c.bin"}).exit_code == kOk);
  const std::string script = "exec " SPMM_BIN_DIR "/spmm -q a.bin b.bin old.bin <&- >&- 2>&-";
  CHECK(run_process({"/bin/sh", "-c", script}).exit_code == kOk);
  CHECK(bytes_of("old.bin") == bytes_of("c.bin"));
  const ProcessResult lost = run_process({"/bin/sh", "-c", "exec " SPMM_BIN_DIR "/spmm info a.bin >&-"});
  CHECK(lost.exit_code == kIoError);
  CHECK(lost.err.find("standard output: writing failed") != std::string::npos);
  CHECK(bytes_of("a.bin") == a);
}
