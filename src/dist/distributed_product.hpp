// One product by all ranks of an MPI run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "dist/agreement.hpp"
#include "dist/communicator.hpp"
#include "dist/rank_parts.hpp"
#include "spmm/options.hpp"
#include "spmm/report.hpp"

namespace spmm::dist {

struct DistributedReport {
  Report whole;  ///< without stages; the plan is that of the first rank that had one
  std::vector<RankPart> ranks;
  std::uint32_t num_rounds = 1;  ///< in which every rank has one range of block rows
  std::uint64_t num_steps = 1;   ///< of all rounds: fetches of rows of B
  bool splits_inner = false;     ///< ranks had parts of the inner dimension, not block rows of C
  bool reads_files = false;      ///< each read its records of A and B itself
};

/// Multiplies two files into a third; README.md says how. Collective; rank 0 has the whole plan, all ranks the rest.
/// Values: the memory limit is that of a rank; 0 = an equal part of most of what is free on its machine. verify_blocks
/// are of each rank.
/// Errors: AgreedFailure.
DistributedReport multiply(const Communicator& ranks, const FailureOf& failure_of, const std::filesystem::path& a,
                           const std::filesystem::path& b, const std::filesystem::path& out, const Options& options);

}  // namespace spmm::dist
