// What a distributed product reports: each rank, and the whole.
#pragma once

#include <cstdint>
#include <vector>

#include "mpi/exchange/communicator.hpp"
#include "mpi/output/rank_reports.hpp"
#include "spmm/report.hpp"

namespace spmm::mpi {

struct DistributedReport {
  Report whole;  ///< without stages; the plan is that of the first rank that had one
  std::vector<RankReport> ranks;
  std::uint32_t num_rounds = 1;  ///< in which every rank has one range of block rows
  std::uint64_t num_steps = 1;   ///< of all rounds: fetches of rows of B
  bool splits_inner = false;     ///< ranks had parts of the inner dimension, not block rows of C
  bool reads_files = false;      ///< each read its records of A and B itself
};

/// Adds what each rank did, and from it what is known of all. Collective. Values: own = of this rank's products.
void add_ranks(const Communicator& ranks, const RankReport& rank, const Report& own, DistributedReport& all);

}  // namespace spmm::mpi
