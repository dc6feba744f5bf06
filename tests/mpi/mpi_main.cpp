// Tests with ranks: skipped with a message (exit code 77) where mpirun does not work, failing instead under
// SPMM_REQUIRE_MPI=1.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "mpi/mpi_place.hpp"
#include "support/catch.hpp"

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  // For all mpirun that the tests start: they may run as root, in a container.
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  std::string why_not;
  try {
    const auto result = spmm::test::run_ranks(2, {"--version"});
    if (result.exit_code == 0) return run_catch(argc, argv);
    why_not = result.err;
  } catch (const std::exception& e) {
    why_not = e.what();
  }
  const char* const required = std::getenv("SPMM_REQUIRE_MPI");
  const bool must = required != nullptr && std::string(required) == "1";
  std::fprintf(stderr, "mpi tests: %s: mpirun -n 2 does not work: %s\n", must ? "FAILED" : "skipped", why_not.c_str());
  return must ? 1 : kSkipped;
}
