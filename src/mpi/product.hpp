// One product by all ranks of an MPI run.
#pragma once

#include <filesystem>

#include "mpi/exchange/agreement.hpp"
#include "mpi/exchange/communicator.hpp"
#include "mpi/report.hpp"
#include "spmm/options.hpp"

namespace spmm::mpi {

/// Multiplies two files into a third; README.md says how. Collective; rank 0 has the whole plan, all ranks the rest.
/// Values: the memory limit is that of a rank; 0 = an equal part of most of what is free on its machine. verify_blocks
/// are of each rank.
/// Errors: AgreedFailure.
DistributedReport multiply(const Communicator& ranks, const FailureOf& failure_of, const std::filesystem::path& a,
                           const std::filesystem::path& b, const std::filesystem::path& out, const Options& options);

}  // namespace spmm::mpi
