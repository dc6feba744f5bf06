// One product by all ranks of an MPI run.
#pragma once

#include <filesystem>

#include "mpi/agreement.hpp"
#include "mpi/communicator.hpp"
#include "mpi/report.hpp"
#include "spmm/options.hpp"

namespace spmm::mpi {

/// Multiplies two files into a third; README.md says how. Collective; the report is rank 0's.
/// Values: the memory limit is that of a rank; 0 = an equal part of most of what is free on its machine. verify_blocks
/// are of each rank.
/// Errors: AgreedFailure.
DistributedReport multiply(const Communicator& ranks, const FailureOf& failure_of, const std::filesystem::path& a,
                           const std::filesystem::path& b, const std::filesystem::path& out, const Options& options);

/// The product of one rank: what spmm does, but a second live run with the same output is refused.
/// Errors: as spmm::multiply().
Report multiply_alone(const std::filesystem::path& a, const std::filesystem::path& b, const std::filesystem::path& out,
                      const Options& options);

}  // namespace spmm::mpi
