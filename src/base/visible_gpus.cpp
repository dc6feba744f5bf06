// Device files, driver tables and CUDA_VISIBLE_DEVICES.
#include "base/visible_gpus.hpp"

#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <utility>

namespace spmm {
namespace {

namespace fs = std::filesystem;

std::vector<int> shown_numbers;

/// Files of a pattern that this process may use. Values: access = of access().
std::size_t num_files(const fs::path& pattern, int access) {
  glob_t found{};
  std::size_t num = 0;
  if (::glob(pattern.c_str(), GLOB_BRACE, nullptr, &found) == 0) {
    for (std::size_t x = 0; x < found.gl_pathc; ++x) num += ::access(found.gl_pathv[x], access) == 0 ? 1 : 0;
  }
  ::globfree(&found);
  return num;
}

bool has_cuda_library(const fs::path& root) {
  return num_files(root / "usr/{lib/wsl/lib,lib/*-linux-gnu,lib/*-linux-gnu/{tegra,nvidia},lib64,lib}/libcuda.so.1",
                   R_OK) != 0;
}

/// How many GPUs are there, and how many numbers CUDA may know.
std::pair<std::size_t, std::size_t> count_gpus(const fs::path& root) {
  constexpr std::size_t kMostOthers = 16;  // where nothing tells how many there are
  const std::size_t num_devices = num_files(root / "dev/nvidia{[0-9],[0-9][0-9]}", R_OK | W_OK);
  const std::size_t num_listed = num_files(root / "proc/driver/nvidia/gpus/*", F_OK);
  if (num_listed == 0 && !has_cuda_library(root)) return {0, 0};
  const bool has_other = num_files(root / "dev/{dxg,nvhost-gpu,nvhost-ctrl-gpu,nvgpu/igpu0/ctrl}", R_OK | W_OK) != 0;
  if (num_listed == 0 && num_devices == 0 && has_other) return {1, kMostOthers};  // WSL2, Jetson
  const std::size_t count = num_listed == 0 ? num_devices : std::min(num_listed, num_devices);
  return {count, count};
}

}  // namespace

std::vector<std::string> visible_gpus(const char* visible, const fs::path& root) {
  const auto [count, num_numbers] = count_gpus(root);
  std::vector<std::string> gpus;
  if (count == 0) return gpus;
  if (visible == nullptr) {
    for (std::size_t g = 0; g < count; ++g) gpus.push_back(std::to_string(g));
    return gpus;
  }
  std::istringstream entries(visible);
  for (std::string entry; std::getline(entries >> std::ws, entry, ',');) {
    entry.erase(entry.find_last_not_of(" \t") + 1);
    const bool is_uuid = entry.starts_with("GPU-") || entry.starts_with("MIG-");
    // Numbers count what CUDA sees; a control group may show fewer device files than the driver lists.
    const bool is_number = !entry.empty() && entry.find_first_not_of("0123456789") == std::string::npos;
    if (!is_uuid && !(is_number && std::strtoul(entry.c_str(), nullptr, 10) < num_numbers)) break;
    gpus.push_back(entry);
  }
  return gpus;
}

bool has_gpu_driver(const fs::path& root) {
  return has_cuda_library(root) || ::access((root / "proc/driver/nvidia").c_str(), F_OK) == 0;
}

bool has_mig(const fs::path& root) {
  return num_files(root / "proc/driver/nvidia/capabilities/*/mig/gi*", F_OK) != 0;
}

std::optional<int> local_rank() {
  for (const char* name :
       {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}) {
    if (const char* value = std::getenv(name)) return std::max(0, std::atoi(value));
  }
  return std::nullopt;
}

void show_gpus_as(std::vector<int> numbers) {
  shown_numbers = std::move(numbers);
}

int shown_gpu(int device) {
  const auto x = static_cast<std::size_t>(device);
  return device >= 0 && x < shown_numbers.size() ? shown_numbers[x] : device;
}

}  // namespace spmm
