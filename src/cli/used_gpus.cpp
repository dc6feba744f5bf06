// The GPUs of a product, before CUDA starts.
#include "cli/used_gpus.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "base/visible_gpus.hpp"
#include "engine/backend_choice.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"

namespace spmm::cli {
namespace {

std::vector<int> first_devices(std::size_t num) {
  std::vector<int> devices(num);
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

/// CUDA's numbers of the devices that the engine will start; none: it may start all, or none.
/// Errors: what reading a header throws, UsageError.
std::vector<int> devices_of(const ProductFiles& files, const Options& options, std::size_t num_visible,
                            std::optional<int> local_rank) {
  if (options.device >= 0) return options.devices.empty() ? std::vector<int>{options.device} : std::vector<int>{};
  if (options.devices == std::vector<int>{kAllDevices}) return {};
  if (!options.devices.empty()) return options.devices;
  const MatrixHeader a = read_header(files.a);
  const MatrixHeader b = read_header(files.b);
  if (a.n != b.n || a.m != b.m) return {};
  std::error_code ignored;
  const bool discards_result = std::filesystem::is_character_file(files.out, ignored);
  const unsigned num = local_rank ? 1 : static_cast<unsigned>(num_visible);
  const unsigned num_used = expected_devices(a, b, options, num, discards_result);
  if (num_used == 1 && local_rank) return {*local_rank % static_cast<int>(num_visible)};
  return first_devices(num_used);
}

}  // namespace

std::optional<UsedGpus> used_gpus(const ProductFiles& files, const Options& options,
                                  const std::optional<std::string>& visible, const std::vector<std::string>& gpus,
                                  std::optional<int> local_rank) {
  if (gpus.size() < 2 || options.backend == Backend::cpu) return std::nullopt;
  UsedGpus used;
  try {
    used.numbers = devices_of(files, options, gpus.size(), local_rank);
  } catch (const Error&) {
    return std::nullopt;
  }
  const auto narrowed = narrowed_gpus(visible, gpus, used.numbers);
  if (!narrowed) return std::nullopt;
  used.visible = *narrowed;
  return used;
}

void hide_unused_gpus(const ProductFiles& files, Options& options) {
  if (!has_backend(Backend::cuda)) return;
  const char* const value = std::getenv("CUDA_VISIBLE_DEVICES");
  const auto visible = value == nullptr ? std::nullopt : std::optional<std::string>(value);
  const auto used = used_gpus(files, options, visible, visible_gpus(), local_rank());
  if (!used || has_mig()) return;
  ::setenv("CUDA_VISIBLE_DEVICES", used->visible.c_str(), 1);
  if (options.device >= 0) options.device = 0;
  if (!options.devices.empty()) options.devices = first_devices(used->numbers.size());
  show_gpus_as(used->numbers);
}

}  // namespace spmm::cli
