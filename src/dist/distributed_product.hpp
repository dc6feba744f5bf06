// One product by all ranks of an MPI run.
#pragma once

#include <filesystem>

#include "dist/agreement.hpp"
#include "dist/communicator.hpp"
#include "dist/distributed_report.hpp"
#include "spmm/options.hpp"

namespace spmm::dist {

/// Multiplies two files into a third; README.md says how. Collective; rank 0 has the whole plan, all ranks the rest.
/// Values: the memory limit is that of a rank; 0 = an equal part of most of what is free on its machine. verify_blocks
/// are of each rank.
/// Errors: AgreedFailure.
DistributedReport multiply(const Communicator& ranks, const FailureOf& failure_of, const std::filesystem::path& a,
                           const std::filesystem::path& b, const std::filesystem::path& out, const Options& options);

}  // namespace spmm::dist
