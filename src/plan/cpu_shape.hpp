// How a CPU kernel would run a product within given limits: threads, output buffers, memory, time.
#pragma once

#include "plan/execution.hpp"
#include "plan/registry.hpp"

namespace spmm::plan {

/// The fastest of all numbers of threads and buffers, and sizes of buffers, that fit; refused where none does.
Execution cpu_shape(const KernelRow& kernel, const Problem& p);

}  // namespace spmm::plan
