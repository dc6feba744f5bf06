// spmm-mpi: calls of all ranks fail in turn; those of the MPI library itself are left alone.
#include <filesystem>

#include "cli/exit_codes.hpp"
#include "faults/fault_place.hpp"
#include "faults/fault_run.hpp"
#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "support/oracle.hpp"
#include "test_paths.hpp"

#ifdef SPMM_MPIRUN

namespace {

using namespace spmm::test;
using namespace spmm::cli;
namespace fs = std::filesystem;

constexpr const char* kTemporary = ".c.bin.spmm-mpi.tmp";

}  // namespace

TEST_CASE("ranks survive every fault of their own calls") {
  const std::vector<std::string> ranks = {SPMM_MPIRUN, "--oversubscribe", "--bind-to", "none", "-n", "2"};
  std::vector<std::string> check = ranks;
  check.insert(check.end(), {SPMM_BIN_DIR "/spmm-mpi", "--version"});
  try {
    if (run_process(check).exit_code != 0) throw std::runtime_error("it fails");
  } catch (const std::exception& error) {
    WARN("skipped: mpirun does not work here: " << error.what());
    return;
  }
  const WorkingFolder place;
  const auto a = random_matrix(256, 4, 120, 65535, 30);
  const auto b = random_matrix(256, 4, 130, 65535, 31);
  spmm::write_matrix("a.bin", a);
  spmm::write_matrix("b.bin", b);
  spmm::write_product("c.bin", oracle_multiply(a, b));
  const std::string complete = bytes_of("c.bin");
  FaultScenario scenario{.name = "ranks",
                         .words = ranks,
                         .prepare = [] { write_bytes("c.bin", kOldOutput); },
                         .judge = {},
                         .exit_codes = {kNoInput, kMemory, kCannotCreate, kIoError},
                         .quick = 1};
  scenario.words.insert(scenario.words.end(),
                        {SPMM_BIN_DIR "/spmm-mpi", "-q", "--durable", "--backend", "cpu", "a.bin", "b.bin", "c.bin"});
  scenario.judge = [&](const ProcessResult& result) -> std::string {
    if (const std::string left = other_names({"a.bin", "b.bin", "c.bin"}); !left.empty()) {
      // A rank that is aborted by another one's failure may leave the one documented name.
      if (result.exit_code == kOk || left != std::string(kTemporary) + " ") return "left " + left;
      fs::remove(kTemporary);
    }
    const std::string content = bytes_of("c.bin");
    if (result.exit_code == kOk) return content == complete ? "" : "wrong output";
    return content == complete || content == kOldOutput ? "" : "neither the old output nor the complete one";
  };
  run_scenario(scenario);
}

#endif
