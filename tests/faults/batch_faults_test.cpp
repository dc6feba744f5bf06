// spmm-batch: each call of the supervisor and of its workers fails in turn; --resume completes the list.
#include <cerrno>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/exit_codes.hpp"
#include "faults/fault_place.hpp"
#include "faults/fault_run.hpp"
#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "support/oracle.hpp"
#include "test_paths.hpp"

namespace {

using namespace spmm::test;
using namespace spmm::cli;
namespace fs = std::filesystem;

/// Outputs that are neither old nor complete, or not complete where all must be.
std::string wrong_outputs(const std::map<std::string, std::string>& complete, bool all) {
  std::string wrong;
  for (const auto& [name, content] : complete) {
    const std::string found = bytes_of(name);
    if (found != content && (all || found != kOldOutput)) wrong += name + " ";
  }
  return wrong;
}

}  // namespace

TEST_CASE("a batch survives every fault, and is completed by --resume") {
  const WorkingFolder place;
  std::map<std::string, std::string> complete;
  std::string list;
  const auto b = random_matrix(128, 4, 60, 65535, 9);
  spmm::write_matrix("b.bin", b);
  for (int job = 1; job <= 3; ++job) {
    const std::string number = std::to_string(job);
    const auto a = random_matrix(128, 4, 50, 65535, static_cast<std::uint64_t>(job) + 20);
    spmm::write_matrix("a" + number + ".bin", a);
    spmm::write_product("c.bin", oracle_multiply(a, b));
    complete["c" + number + ".bin"] = bytes_of("c.bin");
    list += "a" + number + ".bin\tb.bin\tc" + number + ".bin\n";
  }
  fs::remove("c.bin");
  write_bytes("jobs.tsv", list);
  FaultScenario scenario{.name = "batch",
                         .words = {SPMM_BIN_DIR "/spmm-batch", "--backend", "cpu", "--report", "r.json", "jobs.tsv"},
                         .prepare = {},
                         .judge = {},
                         .exit_codes = {kNegative, kBadData, kNoInput, kMemory, kCannotCreate, kIoError},
                         .quick = 5};
  scenario.prepare = [&] {
    for (const auto& entry : fs::directory_iterator(".")) {  // what a bad end has left
      if (entry.path().filename().string().starts_with("jobs.tsv.")) fs::remove_all(entry.path());
    }
    fs::remove("r.json");
    for (const auto& [name, content] : complete) write_bytes(name, kOldOutput);
  };
  scenario.judge = [&](const ProcessResult& result) -> std::string {
    const std::vector<std::string> names = {"a1.bin", "a2.bin", "a3.bin",   "b.bin",  "c1.bin",
                                            "c2.bin", "c3.bin", "jobs.tsv", "r.json", "jobs.tsv.log"};
    if (const std::string left = other_names(names); !left.empty()) return "left " + left;
    if (const std::string wrong = wrong_outputs(complete, result.exit_code == kOk); !wrong.empty()) {
      return "wrong output " + wrong;
    }
    const ProcessResult resumed =
        run_process({SPMM_BIN_DIR "/spmm-batch", "--backend", "cpu", "-q", "--resume", "jobs.tsv"});
    if (resumed.exit_code != kOk) return "--resume fails: " + resumed.err;
    if (const std::string wrong = wrong_outputs(complete, true); !wrong.empty()) return "--resume leaves " + wrong;
    return "";
  };
  run_scenario(scenario);
}

TEST_CASE("a first worker that cannot be started ends the run") {
  const WorkingFolder place;
  spmm::write_matrix("a.bin", random_matrix(128, 4, 50, 65535, 1));
  write_bytes("jobs.tsv", "a.bin\ta.bin\tc.bin\n");
  const FaultFile file;
  file.set({.kind = FaultKind::process, .mode = FaultMode::once, .at = 1, .error = EAGAIN});
  const ProcessOptions options{.env = {{kFaultStateVariable, file.path()}, {"LD_PRELOAD", SPMM_FAULT_SHIM}},
                               .folder = {}};
  const ProcessResult result = run_process({SPMM_BIN_DIR "/spmm-batch", "--backend", "cpu", "jobs.tsv"}, options);
  INFO(result.err);
  CHECK(file.state().num_failed == 1);
  CHECK(result.exit_code == kIoError);
  CHECK(result.err.find("worker process: cannot be started") != std::string::npos);
}
