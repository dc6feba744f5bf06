// Device files, driver tables and CUDA_VISIBLE_DEVICES.
#include "base/visible_gpus.hpp"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <sstream>
#include <utility>

namespace spmm {
namespace {

namespace fs = std::filesystem;

constexpr int kUsable = R_OK | W_OK;

std::vector<int> shown_numbers;

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// Entries of a folder; none if it cannot be read. std::filesystem's iterator ends the process if memory ends, even if
/// it should report errors.
std::vector<std::string> names_in(const fs::path& path) {
  struct CloseFolder {
    void operator()(DIR* folder) const { ::closedir(folder); }
  };
  std::vector<std::string> names;
  const std::unique_ptr<DIR, CloseFolder> folder(::opendir(path.c_str()));
  while (const dirent* const entry = folder == nullptr ? nullptr : ::readdir(folder.get())) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  return names;
}

bool has_any(const fs::path& folder, std::initializer_list<const char*> files, int access) {
  return std::any_of(files.begin(), files.end(),
                     [&](const char* file) { return ::access((folder / file).c_str(), access) == 0; });
}

bool has_cuda_library(const fs::path& root) {
  return has_any(root / "usr",
                 {"lib/wsl/lib/libcuda.so.1", "lib/x86_64-linux-gnu/libcuda.so.1", "lib/aarch64-linux-gnu/libcuda.so.1",
                  "lib/aarch64-linux-gnu/tegra/libcuda.so.1", "lib/aarch64-linux-gnu/nvidia/libcuda.so.1",
                  "lib64/libcuda.so.1", "lib/libcuda.so.1"},
                 R_OK);
}

/// How many GPUs are there, and how many numbers CUDA may know.
std::pair<std::size_t, std::size_t> count_gpus(const fs::path& root) {
  constexpr std::size_t kMostOthers = 16;  // where nothing tells how many there are
  std::size_t num_files = 0;
  for (const std::string& name : names_in(root / "dev")) {
    const bool is_gpu = name.starts_with("nvidia") && is_number(name.substr(6));
    if (is_gpu && ::access((root / "dev" / name).c_str(), kUsable) == 0) ++num_files;
  }
  const std::size_t num_listed = names_in(root / "proc/driver/nvidia/gpus").size();
  if (num_listed == 0 && !has_cuda_library(root)) return {0, 0};
  if (num_listed == 0 && num_files == 0 &&  // WSL2, Jetson
      has_any(root / "dev", {"dxg", "nvhost-gpu", "nvhost-ctrl-gpu", "nvgpu/igpu0/ctrl"}, kUsable)) {
    return {1, kMostOthers};
  }
  const std::size_t count = num_listed == 0 ? num_files : std::min(num_listed, num_files);
  return {count, count};
}

}  // namespace

std::vector<std::string> visible_gpus(const std::optional<std::string>& visible, const fs::path& root) {
  const auto [count, num_numbers] = count_gpus(root);
  std::vector<std::string> gpus;
  if (count == 0) return gpus;
  if (!visible) {
    for (std::size_t g = 0; g < count; ++g) gpus.push_back(std::to_string(g));
    return gpus;
  }
  std::istringstream entries(*visible);
  for (std::string entry; std::getline(entries >> std::ws, entry, ',');) {
    entry.erase(entry.find_last_not_of(" \t") + 1);
    const bool is_uuid = entry.starts_with("GPU-") || entry.starts_with("MIG-");
    // Numbers count what CUDA sees; a control group may show fewer device files than the driver lists.
    const bool is_index = is_number(entry) && entry.size() < 5 && std::stoul(entry) < num_numbers;
    if (!is_uuid && !is_index) break;
    gpus.push_back(entry);
  }
  return gpus;
}

std::vector<std::string> visible_gpus() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible_gpus(visible == nullptr ? std::nullopt : std::optional<std::string>(visible));
}

std::optional<std::string> narrowed_gpus(const std::optional<std::string>& visible,
                                         const std::vector<std::string>& gpus, const std::vector<int>& devices) {
  if (devices.empty() || devices.size() >= gpus.size()) return std::nullopt;
  std::string all;
  for (auto gpu = gpus.begin(); gpu != gpus.end(); ++gpu) {
    const bool is_plain = is_number(*gpu) && (gpu->size() == 1 || gpu->front() != '0');
    if (!is_plain || std::find(gpus.begin(), gpu, *gpu) != gpu) return std::nullopt;
    all += (all.empty() ? "" : ",") + *gpu;
  }
  if (visible && *visible != all) return std::nullopt;
  std::string narrowed;
  for (auto device = devices.begin(); device != devices.end(); ++device) {
    const bool is_twice = std::find(devices.begin(), device, *device) != device;
    if (is_twice || *device < 0 || static_cast<std::size_t>(*device) >= gpus.size()) return std::nullopt;
    narrowed += (narrowed.empty() ? "" : ",") + gpus[static_cast<std::size_t>(*device)];
  }
  return narrowed;
}

bool has_mig(const fs::path& root) {
  const fs::path capabilities = root / "proc/driver/nvidia/capabilities";
  for (const std::string& gpu : names_in(capabilities)) {
    for (const std::string& entry : names_in(capabilities / gpu / "mig")) {
      if (entry.starts_with("gi")) return true;
    }
  }
  return false;
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

bool has_gpu_driver(const fs::path& root) {
  return has_cuda_library(root) || ::access((root / "proc/driver/nvidia").c_str(), F_OK) == 0;
}

}  // namespace spmm
