// The GPUs of a product, before CUDA starts.
#include "cli/used_gpus.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <set>

#include "base/visible_gpus.hpp"
#include "engine/backend_choice.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"
#include "spmm/multiply.hpp"

namespace spmm::cli {
namespace {

std::vector<int> first_devices(std::size_t num) {
  std::vector<int> devices(num);
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

/// Of the devices that the engine will start. Errors: what reading a header throws, UsageError.
std::vector<int> devices_of(const ProductFiles& files, const Options& options, std::size_t num_visible,
                            std::optional<int> local_rank) {
  if (options.device >= 0) return options.devices.empty() ? std::vector<int>{options.device} : std::vector<int>{};
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

std::vector<int> used_gpus(const ProductFiles& files, const Options& options, std::size_t num_visible,
                           std::optional<int> local_rank) {
  if (num_visible < 2 || options.backend == Backend::cpu) return {};
  std::vector<int> devices;
  try {
    devices = devices_of(files, options, num_visible, local_rank);
  } catch (const Error&) {
    return {};
  }
  const bool exist = std::all_of(devices.begin(), devices.end(),
                                 [&](int d) { return d >= 0 && static_cast<std::size_t>(d) < num_visible; });
  const bool are_fewer = exist && devices.size() < num_visible;
  return are_fewer && std::set(devices.begin(), devices.end()).size() == devices.size() ? devices : std::vector<int>{};
}

void hide_unused_gpus(const ProductFiles& files, Options& options) {
  if (!has_backend(Backend::cuda)) return;
  const std::vector<std::string> gpus = visible_gpus();
  const std::vector<int> used = used_gpus(files, options, gpus.size(), local_rank());
  if (used.empty() || has_mig()) return;
  std::string visible;
  for (const int device : used) visible += (visible.empty() ? "" : ",") + gpus[static_cast<std::size_t>(device)];
  ::setenv("CUDA_VISIBLE_DEVICES", visible.c_str(), 1);
  if (options.device >= 0) options.device = 0;
  if (!options.devices.empty()) options.devices = first_devices(used.size());
  show_gpus_as(used);
}

}  // namespace spmm::cli
