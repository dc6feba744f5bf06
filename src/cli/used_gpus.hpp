// Which GPUs a product will use: CUDA starts and ends faster if it sees no others (0.8 s where there are four).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "spmm/options.hpp"

namespace spmm::cli {

/// Files of a product; out may be empty.
struct ProductFiles {
  std::filesystem::path a, b, out;
};

/// CUDA's numbers of the GPUs that this product will use if they are fewer than `num_visible`; none if it uses all, if
/// the CPU is expected to run it, or if the options or files are wrong, which the product says.
std::vector<int> used_gpus(const ProductFiles& files, const Options& options, std::size_t num_visible,
                           std::optional<int> local_rank);

/// Hides the others from CUDA; options then number the devices of the process, messages and reports show the user's
/// numbers. Threads: before the first other one starts; CUDA must not have been started.
void hide_unused_gpus(const ProductFiles& files, Options& options);

}  // namespace spmm::cli
