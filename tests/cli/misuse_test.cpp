// Every wrong command line and every bad file: exit code, one line with the place and a way out, nothing written.
#include <algorithm>
#include <filesystem>
#include <sstream>

#include "cli/exit_codes.hpp"
#include "cli/workplace.hpp"
#include "io/files/scratch_file.hpp"
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
  std::string line;  ///< words with a space between; @ is a.bin b.bin c.bin
  std::string part;  ///< of the message: the place, or the way out
};

/// Runs spmm; afterwards the folder must look as before.
void check_misuse(const Words& arguments, int exit_code, const std::string& part, const Variables& variables = {}) {
  const Words names = names_in(".");
  const ProcessResult result = spmm_command(arguments, variables);
  for (const std::string& word : arguments) UNSCOPED_INFO(word);
  INFO(result.err << "expected: " << part);
  CHECK(result.exit_code == exit_code);
  CHECK(result.out.empty());
  CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  CHECK(result.err.starts_with("spmm: error: "));
  CHECK(has(result.err, "; "));
  CHECK(has(result.err, part));
  CHECK(bytes_of("old.bin") == kOldContent);
  CHECK(names_in(".") == names);
}

void check_table(int exit_code, const std::vector<Misuse>& table) {
  for (const auto& [line, part] : table) {
    Words arguments;
    std::istringstream in(line);
    for (std::string word; in >> word;) {
      if (word == "@") {
        arguments.insert(arguments.end(), {"a.bin", "b.bin", "c.bin"});
      } else {
        arguments.push_back(word);
      }
    }
    check_misuse(arguments, exit_code, part);
  }
}

}  // namespace

TEST_CASE("wrong command lines") {
  const Workplace workplace;
  check_table(kUsage, {
                          {"", "(A)"},
                          {"a.bin", "(B)"},
                          {"a.bin b.bin", "(OUT)"},
                          {"@ d.bin", "\"d.bin\""},
                          {"--plan a.bin", "(B)"},
                          {"--bogus @", "--bogus"},
                          {"--verfy 3 @", "--verfy: is not an option, did you mean --verify?"},
                          {"-threads 3 @", "did you mean --threads?"},
                          {"- b.bin c.bin", "(A)"},
                          {"a.bin - c.bin", "(B)"},
                          {"a.bin b.bin -", "(OUT)"},
                          {"-x @", "-x: "},
                          {"-j 2 @", "did you mean --threads?"},
                          {"-qj2 @", "-j: "},
                          {"--threads -3 -o o.bin a.bin b.bin", "-o: "},
                          {"-V", "did you mean --version?"},
                          {"hlep", "did you mean help?"},
                          {"---", "---: "},
                          {"infoo a.bin", "did you mean info?"},
                          {"verfiy @ -q", "did you mean verify?"},
                          {"plan a.bin b.bin", "did you mean --plan?"},
                          {"@ --threads", "threads"},
                          {"--threads 1 --threads 2 @", "--threads"},
                          {"-q -q @", "--quiet"},
                          {"--plan=maybe a.bin b.bin", "maybe"},
                          {"--backend gpu @", "--backend: \"gpu\" is not known, did you mean cuda?"},
                          {"--kernel fast @", "row-merge"},
                          {"--kernel row-marge @", "did you mean row-merge?"},
                          {"--backend cpu --kernel two-pointer @", "two-pointer"},
                          {"--devices 0,1,0 @", "--devices"},
                          {"--devices 0,x @", "--devices"},
                          {"--devices 0, @", "--devices"},
                          {"--devices 0,1 --device 0 @", "--devices"},
                          {"--devices all --backend cpu @", "--devices"},
                          {"--threads -3 @", "--threads: \"-3\" is not a whole number from 0 to 4096"},
                          {"--threads two @", "--threads: \"two\""},
                          {"--threads 2x @", "--threads: \"2x\""},
                          {"--threads= @", "--threads: \"\""},
                          {"--threads 99999999999 @", "0 to 4096"},
                          {"--device -2 @", "--device: \"-2\""},
                          {"--device 0.5 @", "--device: \"0.5\""},
                          {"--verify ful @", "did you mean full?"},
                          {"--verify -3 @", "--verify: \"-3\""},
                          {"--verify 10% @", "--verify: \"10%\""},
                          {"--verify full --verify-seed 0 @", "--verify-seed"},
                          {"--memory-limit 8Q @", "--memory-limit: \"8Q\""},
                          {"--memory-limit 0 @", "--memory-limit"},
                          {"--memory-limit 99999999999999G @", "--memory-limit"},
                          {"--memory-limit -1G @", "--memory-limit"},
                          {"--progress sometimes @", "--progress"},
                          {"-q -v @", "--verbose"},
                          {"--report a.bin @", "same file as a.bin"},
                          {"--report ./c.bin @", "same file as c.bin"},
                          {"--report= @", "--report"},
                          {"--trace= @", "--trace"},
                          {"--trace - @", "--trace"},
                          {"--trace a.bin @", "same file as a.bin"},
                          {"--trace c.bin @", "same file as c.bin"},
                          {"--trace r.json --report r.json @", "same file as r.json"},
                          {"--trace t.json --plan a.bin b.bin", "--plan"},
                          {"--rows 5 @", "--rows: \"5\""},
                          {"--rows 9:3 @", "--rows: \"9:3\""},
                          {"--rows 0:17 @", "16 block rows"},
                          {"--rows a:3 @", "\"a\""},
                          {"--rows 0:4294967296 @", "0 to 4294967295"},
                          {"--rows= @", "--rows: \"\""},
                          {"a.bin b.bin c.mtx", "spmm-convert c.bin c.mtx"},
                          {"a.bin b.bin c'.npy", "python3 -m spmm convert 'c'\\''.bin' 'c'\\''.npy'"},
                          {"a.bin b.bin c.csv", "spmm-convert c.bin c.mtx"},
                          {"a.bin b.bin c.h5", "python3 -m spmm convert c.bin c.npz"},
                          {"none.bin b.bin c.mtx", "c.mtx"},
                          {"a.bin b.bin a.bin", "same file as the input a.bin"},
                          {"a.bin b.bin ./b.bin", "same file as the input b.bin"},
                          {"a.bin a.bin a.bin", "same file"},
                      });
  check_misuse({"", "b.bin", "c.bin"}, kUsage, "(A)");
  const Words words = {"--backend", "cuda", "--kernel", "row-merge", "a.bin", "b.bin", "c.bin"};
  if (spmm::has_backend(spmm::Backend::cuda)) {
    check_misuse(words, kUsage, "row-merge");
  } else {
    check_misuse(words, kUnavailable, "demo.sh --cuda");
  }
  const Words files = {"a.bin", "b.bin", "c.bin"};
  check_misuse(files, kUsage, "SPMM_THREADS (environment): \"many\"", {{"SPMM_THREADS", "many"}});
  check_misuse(files, kUsage, "SPMM_BACKEND (environment): \"gpu\"", {{"SPMM_BACKEND", "gpu"}});
  check_misuse(files, kUsage, "SPMM_MEMORY_LIMIT (environment): \"lots\"", {{"SPMM_MEMORY_LIMIT", "lots"}});
}

TEST_CASE("bad files") {
  Workplace workplace;
  workplace.add_bad_files();
  write_bytes("table.csv", "1,2,3\n4,5,6\n7,8,9\n");
  write_bytes("few.txt", "1 2\n");
  write_bytes("d.h5", std::string("\x89HDF\r\n\x1a\n\0\0\0\0\0\x08", 14));
  check_table(kNoInput, {
                            {"missing.bin b.bin c.bin", "missing.bin: "},
                            {"a.bin missing.bin c.bin", "missing.bin: "},
                            {"folder b.bin c.bin", "folder: "},
                            {"a.bin /dev/null c.bin", "/dev/null: "},
                            {"a.bin/x b.bin c.bin", "a.bin/x: "},
                        });
  check_table(kBadData,
              {
                  {"table.csv b.bin c.bin", "spmm-convert"},
                  {"a.bin few.txt c.bin", "spmm-convert"},
                  {"d.h5 b.bin c.bin", "python3 -m spmm convert"},
                  {"m0.bin b.bin c.bin", "m0.bin, byte offset 4: "},
                  {"cut.bin b.bin c.bin", "cut.bin, record 2 (byte offset 92): "},
                  {"long.bin b.bin c.bin", "long.bin, byte offset 92: "},
                  {"row.bin b.bin c.bin", "row.bin, record 1 (byte offset 52): block index (16, 0)"},
                  {"a.bin column.bin c.bin", "column.bin, record 1 (byte offset 52): "},
                  {"twice.bin b.bin c.bin", "twice.bin, record 2 (byte offset 92): block (2, 3)"},
                  {"--kernel reference twice.bin b.bin c.bin", "twice.bin, record 2 "},
                  {"--transpose-a row.bin b.bin c.bin", "row.bin, record 1 (byte offset 52): block index (16, 0)"},
                  {"bigendian.bin b.bin c.bin", "little-endian"},
                  {"a.bin n128.bin c.bin", "a.bin and n128.bin: "},
                  {"m8.bin b.bin old.bin", "m8.bin and b.bin: "},
                  {"product.bin b.bin c.bin", "spmm-convert product.bin product16.bin"},
                  {"--plan cut.bin b.bin", "cut.bin, record 2 "},
                  {"--plan a.bin n128.bin", "a.bin and n128.bin: "},
              });
}

TEST_CASE("outputs that cannot be made, limits that are too small") {
  Workplace workplace;
  workplace.add_bad_files();
  check_table(kCannotCreate, {
                                 {"a.bin b.bin none/c.bin", "mkdir -p none"},
                                 {"a.bin b.bin folder", "folder/out.bin"},
                                 {"a.bin b.bin a.bin/c.bin", "a.bin/c.bin: "},
                                 {"a.bin b.bin /proc/c.bin", "/proc/c.bin: "},
                                 {"--no-clobber a.bin b.bin old.bin", "old.bin: "},
                                 {"--report none/r.json a.bin b.bin old.bin", "mkdir -p none"},
                                 {"--report folder a.bin b.bin old.bin", "folder: "},
                                 {"--trace none/t.json a.bin b.bin old.bin", "none/t.json: "},
                             });
  check_table(kIoError, {{"a.bin b.bin /dev/full", "/dev/full, "}});
  check_table(kMemory, {{"--backend cpu --memory-limit 1000 a.bin b.bin old.bin", "(1000 bytes)"},
                        {"--backend cpu --kernel reference --memory-limit 1k @", "--memory-limit"},
                        {"--backend cpu --plan --memory-limit 1000 a.bin b.bin", "(1000 bytes)"}});
}

TEST_CASE("an output that is an input by another name is refused and stays as it is") {
  const Workplace workplace;
  fs::create_symlink("a.bin", "soft.bin");
  fs::create_hard_link("b.bin", "hard.bin");
  const std::string before = bytes_of("a.bin") + bytes_of("b.bin");
  check_table(kUsage, {{"a.bin b.bin soft.bin", "soft.bin: "},
                       {"a.bin b.bin hard.bin", "hard.bin: "},
                       {"soft.bin b.bin a.bin", "a.bin: "}});
  CHECK(bytes_of("a.bin") + bytes_of("b.bin") == before);
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
  CHECK(strict.err.find(" TB by a sample of the indices, and ") != std::string::npos);
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
  if (free_bytes > kMostBytes || spmm::io::is_in_memory(".")) return;  // a scratch file would lie elsewhere
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
