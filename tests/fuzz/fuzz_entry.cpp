// The entry of libFuzzer, and of the program that replays the corpus. --target=NAME says which target runs.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "fuzz/fuzz_targets.hpp"

namespace {

spmm::fuzz::Target selected = nullptr;

}  // namespace

namespace spmm::fuzz {

bool select_target(std::string_view name) {
  for (const NamedTarget& target : kTargets) {
    if (target.name != name) continue;
    selected = target.run;
    return true;
  }
  return false;
}

}  // namespace spmm::fuzz

// Stands in for spmm::available_memory_bytes() in spmm_fuzz (--wrap in CMakeLists.txt): asking the control groups takes
// longer than most inputs do.
// NOLINTNEXTLINE(bugprone-reserved-identifier): the linker chooses the name
extern "C" std::uint64_t __wrap__ZN4spmm22available_memory_bytesERKNSt10filesystem7__cxx114pathE(const void*) {
  return std::uint64_t{1} << 30;
}

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  constexpr const char* kFlag = "--target=";
  for (int a = 1; a < *argc; ++a) {
    const char* const word = (*argv)[a];
    if (std::strncmp(word, kFlag, std::strlen(kFlag)) == 0 && spmm::fuzz::select_target(word + std::strlen(kFlag))) {
      return 0;
    }
  }
  std::fprintf(stderr, "give --target=NAME; names:");
  for (const auto& target : spmm::fuzz::kTargets) std::fprintf(stderr, " %s", target.name.data());
  std::fprintf(stderr, "\n");
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  selected({data, size});
  return 0;
}
