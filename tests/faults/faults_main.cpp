// Tests with calls that fail: skipped with a message (exit code 77) with sanitizers, which have a malloc of their own.
#include <cstdio>
#include <cstdlib>

#include "support/catch.hpp"

int main(int argc, char** argv) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr int kSkipped = 77;
  static_cast<void>(argc);
  static_cast<void>(argv);
  std::fprintf(stderr, "faults tests: skipped: not with sanitizers\n");
  return kSkipped;
#else
  // mpirun may run as root, in a container.
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  return run_catch(argc, argv);
#endif
}
