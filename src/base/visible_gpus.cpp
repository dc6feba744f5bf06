// Device files, driver tables and CUDA_VISIBLE_DEVICES.
#include "base/visible_gpus.hpp"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string_view>
#include <utility>

namespace spmm {
namespace {

namespace fs = std::filesystem;

std::vector<int> shown_numbers;

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

/// Calls visit(name) for each entry of a folder; for none if it cannot be read. std::filesystem's iterator ends the
/// process if memory ends, even if it should report errors.
template <class Visit>
void for_each_name(const fs::path& path, const Visit& visit) {
  const std::unique_ptr<DIR, CloseFolder> folder(::opendir(path.c_str()));
  if (!folder) return;
  while (const dirent* const entry = ::readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") visit(name);
  }
}

/// How many GPUs the driver lists; 0 without a driver.
std::size_t num_listed(const fs::path& driver) {
  std::size_t count = 0;
  for_each_name(driver, [&](std::string_view) { ++count; });
  return count;
}

std::size_t num_usable_files(const fs::path& devices) {
  std::size_t count = 0;
  for_each_name(devices, [&](std::string_view name) {
    constexpr std::string_view kStart = "nvidia";
    if (!name.starts_with(kStart) || !is_number(std::string(name.substr(kStart.size())))) return;
    if (::access((devices / name).c_str(), R_OK | W_OK) == 0) ++count;
  });
  return count;
}

bool has_cuda_library(const fs::path& root) {
  constexpr std::array kFolders = {"usr/lib/wsl/lib",
                                   "usr/lib/x86_64-linux-gnu",
                                   "usr/lib/aarch64-linux-gnu",
                                   "usr/lib/aarch64-linux-gnu/tegra",
                                   "usr/lib/aarch64-linux-gnu/nvidia",
                                   "usr/lib64",
                                   "usr/lib"};
  return std::any_of(kFolders.begin(), kFolders.end(),
                     [&](const char* folder) { return ::access((root / folder / "libcuda.so.1").c_str(), R_OK) == 0; });
}

/// Whether a GPU is there that has no numbered device file: Jetson's, and what WSL2 passes on.
bool has_other_device(const fs::path& devices) {
  constexpr std::array kFiles = {"dxg", "nvhost-gpu", "nvhost-ctrl-gpu", "nvgpu/igpu0/ctrl"};
  return std::any_of(kFiles.begin(), kFiles.end(),
                     [&](const char* file) { return ::access((devices / file).c_str(), R_OK | W_OK) == 0; });
}

/// How many GPUs are there, and how many numbers CUDA may know.
struct NumGpus {
  std::size_t count = 0;
  std::size_t num_numbers = 0;
};

NumGpus count_gpus(const fs::path& root) {
  constexpr std::size_t kMostOthers = 16;  // where nothing tells how many there are
  const std::size_t num_files = num_usable_files(root / "dev");
  std::size_t count = num_listed(root / "proc/driver/nvidia/gpus");
  if (count > 0) {
    count = std::min(count, num_files);
  } else if (has_cuda_library(root)) {
    if (num_files == 0 && has_other_device(root / "dev")) return {.count = 1, .num_numbers = kMostOthers};
    count = num_files;
  }
  return {.count = count, .num_numbers = count};
}

/// Whether the usable entries of the variable are, in CUDA's eyes, what they are here: plain numbers or names of whole
/// GPUs, none twice, and behind them nothing or what can only be invalid.
bool are_certain(const std::optional<std::string>& visible, const std::vector<std::string>& gpus) {
  if (!visible) return true;
  const bool are_numbers = is_number(gpus.front());
  std::size_t begin = 0;
  for (std::size_t x = 0; x < gpus.size(); ++x) {
    const std::string& gpu = gpus[x];
    const bool is_plain = are_numbers ? is_number(gpu) && (gpu.size() == 1 || gpu[0] != '0') : gpu.starts_with("GPU-");
    const bool ends_here = begin + gpu.size() == visible->size() || visible->compare(begin + gpu.size(), 1, ",") == 0;
    if (!is_plain || visible->compare(begin, gpu.size(), gpu) != 0 || !ends_here) return false;
    for (std::size_t y = 0; y < x; ++y) {
      const bool is_twice = are_numbers ? gpus[y] == gpu : gpus[y].starts_with(gpu) || gpu.starts_with(gpus[y]);
      if (is_twice) return false;
    }
    begin += gpu.size() + 1;
  }
  if (begin > visible->size()) return true;
  const std::string next = visible->substr(begin, visible->find(',', begin) - begin);
  return next.starts_with('-') || is_number(next) ||
         (!next.empty() && std::isalpha(static_cast<unsigned char>(next[0])) != 0);
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
  for (std::string entry; std::getline(entries, entry, ',');) {
    entry = trimmed(entry);
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
  if (devices.empty() || devices.size() >= gpus.size() || !are_certain(visible, gpus)) return std::nullopt;
  // Whether CUDA finds a GPU of such a name is not known here; one that it does not find hides those behind it.
  const bool has_names = !is_number(gpus.front());
  std::string narrowed;
  for (std::size_t x = 0; x < devices.size(); ++x) {
    const auto device = static_cast<std::size_t>(devices[x]);
    const auto before = devices.begin() + static_cast<std::ptrdiff_t>(x);
    const bool is_twice = std::find(devices.begin(), before, devices[x]) != before;
    if (is_twice || devices[x] < 0 || device >= gpus.size() || (has_names && device != x)) return std::nullopt;
    narrowed += (x == 0 ? "" : ",") + gpus[device];
  }
  return narrowed;
}

bool has_mig(const fs::path& root) {
  const fs::path capabilities = root / "proc/driver/nvidia/capabilities";
  bool found = false;
  for_each_name(capabilities, [&](std::string_view gpu) {
    for_each_name(capabilities / gpu / "mig", [&](std::string_view entry) { found |= entry.starts_with("gi"); });
  });
  return found;
}

std::optional<int> local_rank() {
  constexpr std::array<const char*, 4> kVariables = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                                     "MV2_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"};
  for (const char* name : kVariables) {
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
