// Linked instead of the CUDA backend in a build without CUDA.
#include "cuda/backend.hpp"
#include "cuda/chains.hpp"

namespace spmm::cuda {
namespace {
constexpr const char* kWhy = "this program was built without CUDA";

[[noreturn]] void refuse() {
  throw DeviceError("spmm", kWhy, "install the CUDA toolkit and build again, or use ProductOptions::backend = cpu");
}

}  // namespace

std::string build_info() {
  return {};
}

bool may_start(std::string& why_not) {
  why_not = kWhy;
  return false;
}

int num_devices(std::string& why_not) {
  why_not = kWhy;
  return 0;
}

std::shared_ptr<DeviceContext> find_device(int wanted, std::string& why_not) {
  why_not = kWhy;
  if (wanted >= 0) refuse();
  return nullptr;
}

plan::Gpu describe(const DeviceContext&, bool) {
  return {};
}

void trim(DeviceContext&) {}

StageHooks stage_hooks() {
  return {};
}

void check_stream(CUstream_st*) {}

std::vector<std::uint64_t> fetch_indices(const void*, std::uint64_t, std::uint32_t, int) {
  return {};
}

ProductStats multiply(const Source&, const Source&, Output&, plan::Choice&, const DeviceRun&) {
  refuse();
}

std::unique_ptr<PlannedProduct> plan_product(const Source&, const Source&, const plan::Choice&, const DeviceRun&) {
  refuse();
}

ProductStats multiply_chains(const Source&, const Source&, std::uint64_t, const DeviceRun&, const HostChains*) {
  refuse();
}

std::unique_ptr<PlannedProduct> plan_chains(const Source&, const Source&, std::uint64_t, const DeviceRun&) {
  refuse();
}

}  // namespace spmm::cuda
