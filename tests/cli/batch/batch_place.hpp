// A folder with small operands and a list of jobs, and spmm-batch run inside it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/workplace.hpp"
#include "support/process.hpp"

namespace spmm::test {

/// A fresh working directory with the operands 1.bin, 2.bin, ... while the object lives.
class BatchPlace {
 public:
  /// Shapes: operands of n x n elements with blocks of 4 x 4.
  explicit BatchPlace(int num_operands = 4, std::uint32_t n = 64, std::uint32_t num_blocks = 60);

  /// jobs.tsv: the products of all pairs to cIJ.bin, `times` times over; returns how many.
  std::size_t write_list(int times = 1);

  /// Outputs of the list that are not there or do not have the bytes of a single product.
  [[nodiscard]] std::vector<std::string> wrong_outputs() const;
  /// Files that neither the test nor a finished run has put there.
  [[nodiscard]] std::vector<std::string> unexpected_files() const;

 private:
  WorkingFolder folder_;
  int num_operands_;
  std::map<std::string, std::string> expected_;  // content by name of the output
};

std::vector<std::string> batch_words(std::vector<std::string> arguments);
/// spmm-batch with faults of its jobs, and the variable that says which: faulty/faulty_engine.cpp.
std::vector<std::string> faulty_batch_words(std::vector<std::string> arguments);
ProcessOptions with_fault(const std::string& fault);
ProcessResult run_batch(const std::vector<std::string>& arguments, const ProcessOptions& options = {});
/// `text` on standard input.
ProcessResult run_batch_on(const std::string& text, const std::string& arguments);

/// Process ids of the children of a process.
std::vector<pid_t> children_of(pid_t pid);

}  // namespace spmm::test
