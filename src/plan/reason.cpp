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

std::string expected_kernels_text(const Plan& plan) {
  std::string all;
  if (plan.candidates.size() < 2) return all;
  for (const Candidate& one : plan.candidates) {
    if (!one.fits) continue;
    std::array<char, 32> number{};
    std::snprintf(number.data(), number.size(), "%.3g", one.predicted_ms);
    all += text(all.empty() ? "" : ", ", one.kernel, " ", number.data(), " ms");
  }
  return all;
}

std::string reason_text(const Plan& plan) {
  std::string reason = plan.why_backend;
  if (plan.compared) {
    const std::string cpu = seconds_text(plan.compared->cpu_s, "on the CPU");
    const std::string cuda = seconds_text(plan.compared->cuda_s, "with CUDA");
    const bool took_cuda = plan.backend == Backend::cuda;
    reason = text("predicted ", took_cuda ? cuda : cpu, ", ", took_cuda ? cpu : cuda);
  }
  if (!plan.exact || plan.candidates.size() < 2) return reason;
  reason += "; predicted " + expected_kernels_text(plan);
  for (const Candidate& one : plan.candidates) {
    if (plan.backend == Backend::cpu && !one.fits) reason += text(", but ", one.kernel, " does not fit");
  }
  return reason;
}

}  // namespace spmm
