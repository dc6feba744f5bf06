// Which GPUs this process may use, found without CUDA: its start alone takes longer than hundreds of small products.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace spmm {

/// One value of CUDA_VISIBLE_DEVICES for each GPU.
/// Values: visible = the variable as this process found it (what is before the first invalid entry counts, as for
/// CUDA); null: without it, every GPU that the driver lists and that has a device file which may be opened. Where no
/// driver lists any (a container without /proc/driver/nvidia, Jetson, WSL2), device files count if libcuda.so.1 is
/// there; one GPU if they do not say how many. root = where /proc, /dev and /usr are.
std::vector<std::string> visible_gpus(const char* visible = std::getenv("CUDA_VISIBLE_DEVICES"),
                                      const std::filesystem::path& root = "/");

/// Whether a driver of NVIDIA's GPUs is installed, or the part of it that a container gets.
bool has_gpu_driver(const std::filesystem::path& root = "/");

/// Whether a GPU of this machine is cut into MIG instances: then a number may stand for one of them.
bool has_mig(const std::filesystem::path& root = "/");

/// Rank of this process on its node, as the common launchers tell it: others may want the other GPUs. Nothing outside
/// of launchers.
std::optional<int> local_rank();

/// Numbers by which messages and reports call the devices of this process, where some were hidden from CUDA.
/// Threads: before the first other one starts.
void show_gpus_as(std::vector<int> numbers);

/// What messages and reports call a device of CUDA's number.
int shown_gpu(int device);

}  // namespace spmm
