// Products of arrays whose elements are no u16: chains (include/spmm/chain.hpp). Nothing is planned ahead: pairs are
// counted, and memory is taken as it is needed. Built without CUDA, stub.cpp stands in.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cuda/backend.hpp"

namespace spmm::cuda {

/// Operands and result in host memory. Shapes: a, b as DeviceBsrView, with index_bytes = 8.
struct HostChains {
  DeviceBsrView a{};
  DeviceBsrView b{};
  std::vector<std::int64_t>& indptr;
  std::vector<std::int64_t>& indices;
  std::function<void*(std::uint64_t num_elements)> allocate_values;  ///< of the result; called once
  DeviceCall call{};                                                 ///< c, in host memory, too, and what goes with it
};

/// C = A * B of run.arrays, or of `host`, which is uploaded. The sources name the operands.
/// Pairs that do not fit beside the result, or are 2^31 or more, are listed for some rows of A at a time, and results
/// go to the host as they are computed. Runs on run.device alone, which errors name if run.more_devices have shares.
/// Errors: as multiply(); OutOfMemory beyond limit_bytes, 2^31 - 1 blocks of A, or, if C's blocks are given, 2^31 - 1
/// pairs.
ProductStats multiply_chains(const Source& a, const Source& b, std::uint64_t limit_bytes, const DeviceRun& run,
                             const HostChains* host = nullptr);

/// As plan_product(): the whole list stays on the device, 8 bytes a pair and 4 for each C block.
std::unique_ptr<PlannedProduct> plan_chains(const Source& a, const Source& b, std::uint64_t limit_bytes,
                                            const DeviceRun& run);

}  // namespace spmm::cuda
