// GPU tests: skipped with a message (exit code 77) without a device, failing instead under SPMM_REQUIRE_GPU=1.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "cuda/backend.hpp"
#include "support/catch.hpp"

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  std::string why_not;
  if (spmm::cuda::find_device(-1, why_not)) return run_catch(argc, argv);
  const char* required = std::getenv("SPMM_REQUIRE_GPU");
  if (required != nullptr && std::string(required) == "1") {
    std::fprintf(stderr, "gpu tests: FAILED: %s, and SPMM_REQUIRE_GPU=1\n", why_not.c_str());
    return 1;
  }
  std::fprintf(stderr, "gpu tests: skipped: %s\n", why_not.c_str());
  return kSkipped;
}
