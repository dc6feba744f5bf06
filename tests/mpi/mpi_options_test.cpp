// Ranks that were started with different command lines or see different files: an error, no hang, no output.
#include <chrono>
#include <filesystem>

#include "cli/exit_codes.hpp"
#include "mpi/mpi_place.hpp"
#include "support/catch.hpp"
#include "test_paths.hpp"

namespace {

using namespace spmm::test;
using namespace spmm::cli;
using Words = std::vector<std::string>;

/// Two ranks with a command line each.
ProcessResult run_apart(const Words& first, const Words& second) {
  Words words = mpi_words(1, first);
  words.insert(words.end(), {":", "-n", "1", SPMM_BIN_DIR "/spmm-mpi"});
  words.insert(words.end(), second.begin(), second.end());
  ProcessOptions options;
  options.timeout = std::chrono::seconds(60);
  return run_process(words, options);
}

/// 2 x 2 elements 1 2 3 4, and I.
void write_operands(const MpiPlace& place) {
  const std::vector<spmm::BlockIndex> all = {{.i = 0, .j = 0}, {.i = 0, .j = 1}, {.i = 1, .j = 0}, {.i = 1, .j = 1}};
  const spmm::BlockMatrix a{.n = 2, .m = 1, .index = all, .values = {1, 2, 3, 4}};
  const spmm::BlockMatrix identity{.n = 2, .m = 1, .index = {all[0], all[3]}, .values = {1, 1}};
  place.set_operands(a, identity);
}

/// Ranks of which the second one has other words must end with this code, one message with both hosts, and no output.
void check_refused(const Words& first, const Words& second, int code, const std::string& words) {
  const ProcessResult result = run_apart(first, second);
  INFO(result.err);
  CHECK_FALSE(result.timed_out);
  CHECK(result.exit_code == code);
  const std::vector<std::string> messages = own_messages(result.err);
  REQUIRE(messages.size() == 1);
  CHECK(messages.front().find(words) != std::string::npos);
  CHECK(messages.front().find(" on rank 0 (") != std::string::npos);
  CHECK(messages.front().find("[rank 1 of 2 on ") != std::string::npos);
  CHECK(names_in(".", {"x.bin", "y.bin", "expected.bin", "others"}).empty());
}

}  // namespace

TEST_CASE("options that decide the result are the same on all ranks, or an error") {
  const MpiPlace place;
  write_operands(place);
  const Words product = {"-q", "--backend", "cpu", "x.bin", "y.bin", "z.bin"};
  const auto with = [&](const Words& options) {
    Words words = options;
    words.insert(words.end(), product.begin(), product.end());
    return words;
  };
  check_refused(product, with({"--transpose-a"}), kUsage, "--transpose-a: given on this rank, left out on rank 0 (");
  check_refused(with({"--transpose-b"}), product, kUsage, "--transpose-b: left out on this rank, given on rank 0 (");
  check_refused(product, with({"--rows", "0:1"}), kUsage, "--rows: 0:1 on this rank, all rows on rank 0 (");
  check_refused(product, with({"--on-saturation", "error"}), kUsage, "--on-saturation: error on this rank");
  check_refused(product, with({"--no-clobber"}), kUsage, "--no-clobber: given on this rank");
  check_refused(product, {"-q", "--backend", "cpu", "x.bin", "y.bin", "other.bin"}, kUsage,
                "OUT: other.bin on this rank, z.bin on rank 0 (");
}

TEST_CASE("--version and --help of one rank do not hang") {
  const MpiPlace place;
  write_operands(place);
  const Words product = {"-q", "x.bin", "y.bin", "z.bin"};
  check_refused(product, {"--version"}, kUsage, "--help or --version on this rank, a product on rank 0 (");
  check_refused({"--help"}, product, kUsage, "a product on this rank, --help or --version on rank 0 (");
}

TEST_CASE("options of each rank may differ") {
  const MpiPlace place;
  write_operands(place);
  for (const bool has_rows : {false, true}) {
    Words few = {"-q", "--backend", "cpu", "--threads", "1", "x.bin", "y.bin", "z.bin"};
    Words others = {"-q", "--verify", "3", "--memory-limit", "50M", "x.bin", "y.bin", "z.bin"};
    if (has_rows) {
      for (Words* const words : {&few, &others}) words->insert(words->begin(), {"--rows", "0:2"});
    }
    const ProcessResult result = run_apart(few, others);
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    CHECK(bytes_of("z.bin") == bytes_of("expected.bin"));
  }
}

TEST_CASE("inputs that ranks see differently are an error, whatever their names") {
  const MpiPlace place;
  write_operands(place);
  std::filesystem::create_directory("others");
  std::string bytes = bytes_of("x.bin");
  write_bytes("others/x.bin", bytes);
  bytes.back() = 7;  // an element of the last block
  bytes[bytes.size() - 2] = 7;
  write_bytes("others/changed.bin", bytes);
  const auto product = [](const char* a) { return Words{"-q", "--backend", "cpu", a, "y.bin", "z.bin"}; };
  check_refused(product("x.bin"), product("others/changed.bin"), kNoInput,
                "others/changed.bin: n 2, m 1, 4 blocks with digest ");
  check_refused(product("x.bin"), product("y.bin"), kNoInput, "y.bin: n 2, m 1, 2 blocks with digest ");
  const ProcessResult result = run_apart(product("x.bin"), product("others/x.bin"));
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK(bytes_of("z.bin") == bytes_of("expected.bin"));
}
