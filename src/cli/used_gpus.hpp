// Which GPUs a product will use: CUDA starts and ends faster if it sees no others.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "spmm/multiply.hpp"

namespace spmm::cli {

/// The GPUs of this process, and what CUDA_VISIBLE_DEVICES must be for CUDA to see no others.
struct UsedGpus {
  std::string visible;
  std::vector<int> numbers;  ///< of the user, for each device of the process
};

/// Files of a product; out may be empty.
struct ProductFiles {
  std::filesystem::path a, b, out;
};

/// The GPUs that this product will use if they are fewer than CUDA would see; nothing if all, if the CPU is expected to
/// run it, or if the options or files are wrong, which the product says.
/// Values: visible = CUDA_VISIBLE_DEVICES; gpus = visible_gpus(visible); local_rank = local_rank().
std::optional<UsedGpus> used_gpus(const ProductFiles& files, const Options& options,
                                  const std::optional<std::string>& visible, const std::vector<std::string>& gpus,
                                  std::optional<int> local_rank);

/// Hides the others from CUDA; options then number the devices of the process, messages and reports show the user's
/// numbers. Threads: before the first other one starts; CUDA must not have been started.
void hide_unused_gpus(const ProductFiles& files, Options& options);

}  // namespace spmm::cli
