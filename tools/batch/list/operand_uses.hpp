// How many jobs still want each input: what a worker keeps for them.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>

#include "tools/batch/list/jobs.hpp"

namespace spmm::batch {

/// Counts the inputs of jobs that wait; those that no job wants any more are forgotten.
class OperandUses {
 public:
  void add(const Job& job);
  void remove(const Job& job);

  /// Waiting jobs with this operand (Job::operand_a, operand_b).
  [[nodiscard]] std::size_t num_waiting(const std::string& operand) const;

 private:
  void drop(const std::string& operand);
  std::unordered_map<std::string, std::size_t> uses_;
};

}  // namespace spmm::batch
