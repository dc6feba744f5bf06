// Which GPUs this process may use, found without CUDA: its start alone takes longer than hundreds of small products.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace spmm {

/// One value of CUDA_VISIBLE_DEVICES for each GPU.
/// Values: visible = the variable as this process found it (what is before the first invalid entry counts, as for
/// CUDA); without it every GPU that the driver lists and that has a device file which may be opened. Where no driver
/// lists any (a container without /proc/driver/nvidia, Jetson, WSL2), device files count if libcuda.so.1 is there; one
/// GPU where they do not tell how many. root = where /proc, /dev and /usr are.
std::vector<std::string> visible_gpus(const std::optional<std::string>& visible,
                                      const std::filesystem::path& root = "/");

/// The same for this process's own variable.
std::vector<std::string> visible_gpus();

/// Whether a driver of NVIDIA's GPUs is installed, or the part of it that a container gets.
bool has_gpu_driver(const std::filesystem::path& root = "/");

}  // namespace spmm
