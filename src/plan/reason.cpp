// Why a plan is as it is, in words: made from its data when it is printed.
#include <array>
#include <cstdio>

#include "base/text.hpp"
#include "spmm/plan.hpp"

namespace spmm {
namespace {

/// "0.07 s on the CPU".
std::string seconds_text(double seconds, const char* where) {
  if (seconds == 0) return text("does not fit ", where);
  std::array<char, 32> number{};
  std::snprintf(number.data(), number.size(), "%.2g s ", seconds);
  return text(number.data(), where);
}

}  // namespace

std::string reason_text(const Plan& plan) {
  if (!plan.compared) return plan.why_backend;
  const std::string cpu = seconds_text(plan.compared->cpu_s, "on the CPU");
  const std::string cuda = seconds_text(plan.compared->cuda_s, "with CUDA");
  const bool took_cuda = plan.backend == Backend::cuda;
  return text("predicted ", took_cuda ? cuda : cpu, ", ", took_cuda ? cpu : cuda);
}

}  // namespace spmm
