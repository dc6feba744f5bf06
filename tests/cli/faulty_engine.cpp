// Faults of the jobs of spmm-batch, so that tests see how the supervisor takes them. The linker (--wrap) puts
// faulty_multiply() in front of Engine::multiply() of files.
// SPMM_BATCH_FAULT=KIND:TEXT makes jobs misbehave whose output path contains TEXT. KIND: kill (the process dies), hang
// (never ends, whatever signal comes), slow (a second more), device (DeviceError, now and for every
// later job of the process, as after a fault on a device). Nothing without the variable.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>

#include "spmm/engine.hpp"
#include "spmm/error.hpp"
#include "tools/spmm/subcommands.hpp"

#define MULTIPLY "_ZN4spmm6Engine8multiplyERKNSt10filesystem7__cxx114pathES5_S5_RKNS_14ProductOptionsE"

namespace spmm::test {
namespace {

using Path = std::filesystem::path;

std::atomic<bool> device_broken{false};

void hang() {
  ::signal(SIGUSR2, SIG_IGN);  // by which the supervisor ends a worker
  while (true) ::pause();
}

void inject_fault(const Path& out) {
  const char* const wish = std::getenv("SPMM_BATCH_FAULT");
  if (wish == nullptr) return;
  const std::string_view text = wish;
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return;
  const std::string_view kind = text.substr(0, colon);
  const bool is_meant = out.native().find(text.substr(colon + 1)) != std::string::npos;
  if (is_meant && kind == "kill") ::raise(SIGKILL);
  if (is_meant && kind == "slow") std::this_thread::sleep_for(std::chrono::seconds(1));
  if (is_meant && kind == "hang") hang();
  if (is_meant && kind == "device") device_broken.store(true);
  if (device_broken.load()) throw DeviceError("device", "injected fault", "unset SPMM_BATCH_FAULT");
}

}  // namespace

// A member function has its object as the first argument.
Report real_multiply(Engine* engine, const Path& a, const Path& b, const Path& out,
                     const ProductOptions& options) asm("__real_" MULTIPLY);
Report faulty_multiply(Engine* engine, const Path& a, const Path& b, const Path& out,
                       const ProductOptions& options) asm("__wrap_" MULTIPLY);

Report faulty_multiply(Engine* engine, const Path& a, const Path& b, const Path& out, const ProductOptions& options) {
  inject_fault(out);
  return real_multiply(engine, a, b, out, options);
}

}  // namespace spmm::test

int main(int argc, char** argv) {
  return spmm::tools::batch_main(argc, argv);
}
