// spmm: a small product, and one out of core, each with every call failing in turn.
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "cli/exit_codes.hpp"
#include "faults/fault_place.hpp"
#include "faults/fault_run.hpp"
#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "support/matrix_builder.hpp"
#include "support/oracle.hpp"
#include "test_paths.hpp"

namespace {

using namespace spmm::test;
using namespace spmm::cli;
namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// What a fault may come to: see the exit codes in README.md.
const std::vector<int> kCodes = {kNoInput, kMemory, kCannotCreate, kIoError};

/// a.bin, b.bin and the bytes of their product, by the definition.
std::string put_operands(const spmm::BlockMatrix& a, const spmm::BlockMatrix& b) {
  spmm::write_matrix("a.bin", a);
  spmm::write_matrix("b.bin", b);
  spmm::write_product("c.bin", oracle_multiply(a, b));
  std::string complete = bytes_of("c.bin");
  fs::remove("c.bin");
  return complete;
}

Words spmm_with(const Words& options) {
  Words words = {SPMM_BIN_DIR "/spmm", "--backend", "cpu", "--report", "r.json"};
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

/// A product to c.bin, where an earlier output is or none.
FaultScenario file_scenario(const std::string& name, const Words& options, const std::string& complete, bool has_old) {
  FaultScenario scenario{.name = name, .words = spmm_with(options), .prepare = {}, .judge = {}, .exit_codes = kCodes};
  scenario.words.insert(scenario.words.end(), {"a.bin", "b.bin", "c.bin"});
  scenario.prepare = [has_old] {
    fs::remove("r.json");
    fs::remove("c.bin");
    if (has_old) write_bytes("c.bin", kOldOutput);
  };
  scenario.judge = [complete, has_old](const ProcessResult& result) -> std::string {
    if (const std::string left = other_names({"a.bin", "b.bin", "c.bin", "r.json"}); !left.empty())
      return "left " + left;
    const std::string content = bytes_of("c.bin");
    const bool is_complete = content == complete;
    if (result.exit_code == kOk) {
      if (!is_complete) return "wrong output";
      return fs::exists("r.json") ? "" : "no report";
    }
    const bool is_old = has_old ? content == kOldOutput : !fs::exists("c.bin");
    return is_complete || is_old ? "" : "neither the old output nor the complete one";
  };
  return scenario;
}

spmm::BlockMatrix banded(std::uint32_t num_rows, std::uint32_t m, std::uint64_t seed) {
  MatrixBuilder builder(num_rows, m, seed);
  for (std::uint32_t i = 0; i < num_rows; ++i) {
    for (std::uint32_t j = i < 2 ? 0 : i - 2; j < std::min(num_rows, i + 3); ++j) builder.add_random(i, j, kFullRange);
  }
  return shuffled(builder.matrix(), seed);
}

}  // namespace

TEST_CASE("a small product survives every fault") {
  const WorkingFolder place;
  const auto a = random_matrix(256, 4, 120, kFullRange, 1);
  const auto b = random_matrix(256, 4, 130, kFullRange, 2);
  const std::string complete = put_operands(a, b);
  const Words options = {"--threads", "3", "--durable", "--verify", "20"};
  FaultScenario over_old = file_scenario("small, over an old output", options, complete, true);
  over_old.quick = 7;
  run_scenario(over_old);
  FaultScenario fresh = file_scenario("small, new output", {"--threads", "1", "--no-clobber", "-v"}, complete, false);
  fresh.quick = 4;
  run_scenario(fresh);
}

TEST_CASE("signals while the output is given its name leave the exit code to the product") {
  const WorkingFolder place;
  const auto a = random_matrix(256, 4, 120, kFullRange, 1);
  const std::string complete = put_operands(a, a);
  const auto check = [&](FaultKind kind, const Words& options, const char* out, int num_signals) {
    INFO(out << ", " << kFaultKindNames[static_cast<std::size_t>(kind)] << ", signals: " << num_signals);
    fs::remove("r.json");
    const FaultFile file;
    file.set({.kind = kind, .mode = FaultMode::slow, .at = 1, .error = 2500});
    Words words = spmm_with(options);
    words.insert(words.end(), {"a.bin", "b.bin", out});
    const ProcessOptions how{.env = {{kFaultStateVariable, file.path()}, {"LD_PRELOAD", SPMM_FAULT_SHIM}},
                             .folder = {},
                             .timeout = std::chrono::seconds(60)};
    Process process(words, how);
    for (int turn = 0; turn < 4'000 && file.state().num_failed.load() == 0; ++turn) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    for (int number = 0; number < num_signals; ++number) {
      process.send_signal(SIGTERM);
      std::this_thread::sleep_for(std::chrono::milliseconds(400));
    }
    const ProcessResult result = process.wait();
    INFO(result.err);
    CHECK(file.state().num_failed.load() != 0);
    CHECK(result.exit_code == kOk);
    CHECK(fs::exists("r.json"));
    CHECK(other_names({"a.bin", "b.bin", "c.bin", "r.json"}).empty());
  };
  check(FaultKind::link, {"--threads", "2"}, "c.bin", 1);
  CHECK(bytes_of("c.bin") == complete);
  for (const int num_signals : {1, 2}) {
    write_bytes("c.bin", kOldOutput);
    check(FaultKind::rename, {"--threads", "2"}, "c.bin", num_signals);
    CHECK(bytes_of("c.bin") == complete);
  }
}

TEST_CASE("a product out of core survives every fault") {
  const WorkingFolder place;
  spmm::write_matrix("a.bin", banded(1800, 8, 3));
  spmm::write_matrix("b.bin", banded(1800, 8, 4));
  for (const char* const kernel : {"row-merge", "reference"}) {
    // About the least that a product fits.
    Words options;
    ProcessResult whole;
    for (unsigned kilobytes = 1000; whole.exit_code != kOk && kilobytes < 8000; kilobytes += 200) {
      options = {"--threads", "2", "--kernel", kernel, "--memory-limit", std::to_string(kilobytes) + "k"};
      Words words = spmm_with(options);
      words.insert(words.end(), {"-v", "a.bin", "b.bin", "c.bin"});
      whole = run_process(words);
    }
    REQUIRE(whole.err.find("out of core: A in ") != std::string::npos);
    const std::string complete = bytes_of("c.bin");
    FaultScenario scenario = file_scenario(std::string("out of core, ") + kernel, options, complete, true);
    scenario.quick = 3;
    run_scenario(scenario);
  }
}

TEST_CASE("a product with a long output survives faults of its calls") {
  const WorkingFolder place;
  const auto a = random_matrix(6400, 64, 1050, 1000, 5);
  const spmm::BlockMatrix identity = identity_matrix(6400, 64);
  spmm::write_matrix("a.bin", a);
  spmm::write_matrix("b.bin", identity);
  REQUIRE(run_process(spmm_with({"-q", "a.bin", "b.bin", "c.bin"})).exit_code == 0);
  const std::string complete = bytes_of("c.bin");
  REQUIRE(complete.size() > (16u << 20));  // space is reserved from there on
  FaultScenario scenario = file_scenario("long", {"--threads", "2"}, complete, true);
  if (!all_points()) scenario.left_out = {FaultKind::memory, FaultKind::open, FaultKind::status, FaultKind::read};
  scenario.quick = 2;
  run_scenario(scenario);
}
