// A rank's records of A in steps of whole rounds, each of which meets no more of B than fits.
#pragma once

#include <cstdint>
#include <vector>

#include "mpi/divide/division.hpp"
#include "mpi/exchange/b_rows.hpp"
#include "mpi/exchange/record_store.hpp"

namespace spmm::mpi {

/// Block rows of B that records of A meet, ascending.
std::vector<std::uint32_t> met_rows(const RecordStore& a, std::uint32_t blocks_per_side);

/// Memory: a copy of the records of one step, 16 bytes for each record of all of them.
class RowSteps {
 public:
  /// Takes as few steps as keep the rows of B of every step and rank within half of the limit; one round may pass it.
  /// Collective.
  RowSteps(const Communicator& ranks, const RecordStore& a, const Division& division, const BRows& b_rows,
           std::uint32_t blocks_per_side, StoreLimit& limit);

  [[nodiscard]] std::uint32_t num_steps() const { return (num_rounds_ + rounds_per_step_ - 1) / rounds_per_step_; }
  /// The round behind the last one of a step.
  [[nodiscard]] std::uint32_t end_round(std::uint32_t step) const {
    return std::min(num_rounds_, (step + 1) * rounds_per_step_);
  }
  /// Takes the records of a step. Errors: OutOfMemory.
  void go_to(std::uint32_t step);
  [[nodiscard]] const RecordStore& records() const { return records_; }

 private:
  const RecordStore& a_;
  std::uint64_t record_bytes_;
  std::uint32_t num_rounds_;
  std::uint32_t rounds_per_step_;
  std::vector<std::uint32_t> rounds_;  // of each record of A
  RecordStore records_;
};

}  // namespace spmm::mpi
