// What a distributed product reports: each rank, and the whole.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mpi/communicator.hpp"
#include "spmm/report.hpp"

namespace spmm::mpi {

/// What one rank did.
struct RankReport {
  /// What goes from one rank to another as it is.
  struct Numbers {
    std::uint32_t first_row = 0;  ///< block rows of C: from here
    std::uint32_t end_row = 0;    ///< to here
    std::uint64_t pairs = 0;
    std::uint64_t num_blocks = 0;
    double count_s = 0;          ///< pairs of all rows, and C blocks of its own
    double multiply_s = 0;       ///< the library's product of its rows, written to its place
    double wait_s = 0;           ///< for ranks that had not done that
    std::uint64_t num_runs = 0;  ///< of the product: 1, or 2 if the first one has found its size
    std::uint64_t peak_host_bytes = 0;
    std::uint64_t peak_device_bytes = 0;
    std::uint64_t num_panels = 0;
    std::uint64_t saturated_elements = 0;
    std::uint64_t dropped_elements = 0;
    std::uint64_t verified_blocks = 0;
    ProofReport proof{};
  };

  Numbers numbers;
  std::string host;
  std::string backend;  ///< "" if the rank had no block rows
  std::string kernel;
  std::string device;
};

Bytes encode(const RankReport& rank);
RankReport decode(const Bytes& bytes);

struct DistributedReport {
  Report whole;  ///< without stages; the plan is that of rank 0, its backend and kernel those of the first with rows
  std::vector<RankReport> ranks;
};

/// Adds up what the ranks did into report.whole. Values: report.ranks are there.
void add_up(DistributedReport& report);

}  // namespace spmm::mpi
