// Which GPUs this process may use, found without CUDA: its start alone takes longer than hundreds of small products.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace spmm {

/// One value of CUDA_VISIBLE_DEVICES for each GPU.
/// Values: visible = the variable as this process found it (what is before the first invalid entry counts, as for
/// CUDA); without it every GPU that the driver lists and that has a device file which may be opened.
std::vector<std::string> visible_gpus(const std::optional<std::string>& visible,
                                      const std::filesystem::path& driver = "/proc/driver/nvidia/gpus",
                                      const std::filesystem::path& devices = "/dev");

/// The same for this process's own variable.
std::vector<std::string> visible_gpus();

}  // namespace spmm
