// Faults on request, so that tests see how the supervisor takes them.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "spmm/error.hpp"
#include "tools/batch/batch_worker.hpp"

namespace spmm::batch {
namespace {

std::atomic<bool> device_broken{false};

void be_slow(const std::atomic<bool>& cancel) {
  using Clock = std::chrono::steady_clock;
  for (const auto end = Clock::now() + std::chrono::seconds(1); Clock::now() < end;) {
    if (cancel.load()) throw Interrupted("spmm", "interrupted", "nothing was written, it is safe to run it again");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace

void inject_fault(const std::string& out, const std::atomic<bool>& cancel) {
  const char* const wish = std::getenv("SPMM_BATCH_FAULT");
  if (wish == nullptr) return;
  const std::string_view text = wish;
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return;
  const std::string_view kind = text.substr(0, colon);
  const bool is_meant = out.find(text.substr(colon + 1)) != std::string::npos;
  if (is_meant && kind == "kill") ::raise(SIGKILL);
  if (is_meant && kind == "slow") be_slow(cancel);
  while (is_meant && kind == "hang") ::pause();
  if (is_meant && kind == "device") device_broken.store(true);
  if (device_broken.load()) throw DeviceError("device", "injected fault", "unset SPMM_BATCH_FAULT");
}

}  // namespace spmm::batch
