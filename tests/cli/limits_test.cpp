// Products of small or skewed operands within memory limits that once took hundreds of times as long as others, and
// what is said of them before they start. Times are of the processor: a signal ends a process that takes longer.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cli/exit_codes.hpp"
#include "cli/workplace.hpp"
#include "spmm/engine.hpp"
#include "support/catch.hpp"
#include "test_paths.hpp"

namespace {

using namespace spmm::test;
using namespace spmm::cli;
using Words = std::vector<std::string>;

/// Random operands a.bin and b.bin in a fresh folder. Values: pattern = as spmm-gen knows it.
class RandomOperands {
 public:
  RandomOperands(std::uint32_t n, std::uint32_t m, std::uint32_t k, const std::string& pattern = "uniform") {
    for (const std::string name : {"a.bin", "b.bin"}) {
      const std::string seed = name == "a.bin" ? "1" : "2";
      const ProcessResult made =
          run_process({std::string(SPMM_BIN_DIR) + "/spmm-gen", "-q", "-n", std::to_string(n), "-m", std::to_string(m),
                       "-k", std::to_string(k), "--seed", seed, "--pattern", pattern, path(name)});
      REQUIRE(made.exit_code == kOk);
    }
  }

  [[nodiscard]] std::string path(const std::string& name) const { return folder_.file(name); }

  /// Leaves the blocks where they are, in the corner of a larger matrix.
  void enlarge(std::uint32_t n) const {
    for (const char* name : {"a.bin", "b.bin"}) {
      std::fstream(path(name), std::ios::in | std::ios::out | std::ios::binary)
          .write(reinterpret_cast<const char*>(&n), sizeof n);
    }
  }

  /// Runs spmm for at most 2 s of the processor. No file that it writes may become larger than 100 MB.
  [[nodiscard]] ProcessResult multiply(const Words& options, const std::string& b = "b.bin",
                                       const std::string& out = "/dev/null") const {
    Words words = {"/bin/sh", "-c", "ulimit -t 2; ulimit -f 100000; exec \"$@\"", "sh", spmm_words({}).front()};
    words.insert(words.end(), {"-q", "--backend", "cpu"});
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {path("a.bin"), path(b), out});
    ProcessOptions process;
    process.env = {{"TMPDIR", tmpdir}};
    return run_process(words, process);
  }

  /// Whether the product ends in time within each of these limits.
  void check(const Words& limits, const std::string& num_threads = "1") const {
    for (const std::string& limit : limits) {
      const ProcessResult result = multiply({"--threads", num_threads, "--memory-limit", limit});
      INFO("limit " << limit << ": exit code " << result.exit_code << ", signal " << result.signal << result.err);
      CHECK(result.exit_code == kOk);
    }
  }

  std::string tmpdir = std::filesystem::temp_directory_path();  ///< for scratch files

 private:
  TemporaryFolder folder_;
};

/// A full block column, and as many blocks elsewhere: times its transpose, a C that is full.
RandomOperands full_column(std::uint32_t num_rows) {
  return {num_rows * 8, 8, num_rows * 2, "heavy-column"};
}

}  // namespace

TEST_CASE("products within small limits end in a time like that of others", "[native]") {
  RandomOperands(12'000, 2, 150'000).check({"7M", "8M", "10M"});  // a kernel that just fits is not the slowest way
  RandomOperands(200'000, 2, 700'000).check({"12M", "15M"});
  RandomOperands(10'000'000, 1, 300'000).check({"200k", "7M", "5M"});  // few elements in a row
  RandomOperands(8'237, 1, 85'000).check({"180450"}, "8");             // as many threads as a tiny limit allows
  const RandomOperands corner(20'000, 1, 653'027);                     // of a huge matrix: cut as a small one
  corner.enlarge(0xFFFF'FFFFu);
  corner.check({"40M"});
}

TEST_CASE("without a scratch folder a product ends in time within each limit, or is refused", "[native]") {
  RandomOperands operands(75'000, 2, 375'000);
  operands.tmpdir = operands.path("nowhere");
  const ProcessResult result = operands.multiply({"--threads", "1", "--memory-limit", "10M"});
  CHECK((result.exit_code == kOk || result.exit_code == kMemory));
}

TEST_CASE("a full column times a full row: space, time and blocks are known before the work", "[native]") {
  const RandomOperands operands = full_column(65'000);  // 1.1 TB
  CHECK(operands.multiply({"--strict-space", "--transpose-b"}, "a.bin", operands.path("c")).exit_code == kCannotCreate);
  const Words options = {"--kernel", "reference", "--threads", "1", "--transpose-b"};  // more than a day: --force
  CHECK(full_column(300'000).multiply(options, "a.bin").exit_code == kUsage);
  spmm::ProductOptions how;
  how.backend = spmm::Backend::cpu;
  how.transpose_b = true;
  CHECK(spmm::Engine().plan(operands.path("a.bin"), operands.path("a.bin"), how).expected_output_blocks > 1e9);
}
