// spmm-bench --calibrate: the rates of the GPU at hand, measured.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/run.hpp"
#include "tools/common/json.hpp"

namespace spmm::tools {

/// Runs the products of rate_steps() on the device of the options and fits the rates of its architecture to them.
/// Prints a table and the row; returns the measurement. Values: kernels of the options are not used.
/// Errors: DeviceError (no device).
Json calibrate(const BenchOptions& options, const std::vector<std::string>& command);

}  // namespace spmm::tools
