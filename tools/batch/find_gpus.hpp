// Which GPUs this process may use, found without CUDA: its start alone takes longer than hundreds of small products.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace spmm::batch {

/// One value of CUDA_VISIBLE_DEVICES for each GPU.
/// Values: visible = the variable as this process found it (what is before the first invalid entry counts, as for
/// CUDA); without it every GPU that the driver lists and that has a device file which may be opened.
std::vector<std::string> find_gpus(const std::optional<std::string>& visible,
                                   const std::filesystem::path& driver = "/proc/driver/nvidia/gpus",
                                   const std::filesystem::path& devices = "/dev");

/// Those of `all` that --gpus asks for: "auto" (all), "none", or numbers with commas between (positions in `all`).
/// Errors: UsageError.
std::vector<std::string> wanted_gpus(const std::string& wish, const std::string& where,
                                     const std::vector<std::string>& all);

}  // namespace spmm::batch
