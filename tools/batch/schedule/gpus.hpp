// Which of the visible GPUs a run uses.
#pragma once

#include <string>
#include <vector>

namespace spmm::batch {

/// Those of `all` that --gpus asks for: "auto" (all), "none", or numbers with commas between (positions in `all`).
/// Errors: UsageError.
std::vector<std::string> wanted_gpus(const std::string& wish, const std::string& where,
                                     const std::vector<std::string>& all);

}  // namespace spmm::batch
