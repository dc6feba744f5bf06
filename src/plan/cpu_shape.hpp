// How a CPU kernel would run a product within given limits: threads, output buffers, memory.
#pragma once

#include "plan/execution.hpp"
#include "plan/registry.hpp"

namespace spmm::plan {

/// The most threads that fit with buffers of a useful size, else the largest buffers that fit; refused where none do.
Execution cpu_shape(const KernelRow& kernel, const Problem& p);

}  // namespace spmm::plan
