// What each rank did, on its way to all ranks.
#pragma once

#include <string>

#include "mpi/exchange/communicator.hpp"
#include "spmm/report.hpp"

namespace spmm::mpi {

/// What one rank did.
struct RankReport {
  std::string host;
  std::string backend;  ///< "" if the rank had no blocks of A
  std::string kernel;
  std::string device;
  std::uint64_t pairs = 0;
  std::uint64_t num_blocks = 0;
  double divide_s = 0;    ///< reading the shares, B to its homes, counting, A to its owners
  double fetch_s = 0;     ///< rows of B
  double multiply_s = 0;  ///< the library's product, with the two below
  double wait_s = 0;      ///< at the ends of rounds, for other ranks
  double write_s = 0;
  double merge_s = 0;                ///< sums of partial products
  std::uint64_t received_bytes = 0;  ///< records of A and B of this rank, or their heads
  std::uint64_t peak_host_bytes = 0;
  std::uint64_t peak_device_bytes = 0;
};

Bytes encode(const RankReport& rank);
RankReport decode(const Bytes& bytes);

}  // namespace spmm::mpi
