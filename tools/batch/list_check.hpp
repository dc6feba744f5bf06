// A list is checked whole before work starts; and what a killed run left behind is removed.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/batch/batch_journal.hpp"
#include "tools/batch/job_list.hpp"

namespace spmm::batch {

struct ListProblems {
  int exit_code = 0;                  ///< of the first problem; 0 = none
  std::vector<std::string> messages;  ///< the first kMaxProblems of them
  std::uint64_t num_problems = 0;

  void add(int code, const std::string& message);
};

/// What is wrong with a list. The text of all jobs is compared (one OUT twice, an OUT that is an input); files are
/// looked at for the jobs `mine` alone: missing inputs and folders, OUT that is an input under another name.
/// Files: one stat() per different input and folder, one lstat() per OUT.
ListProblems check_list(const std::vector<Job>& jobs, const std::vector<std::size_t>& mine, const std::string& name);

/// Whether any number of jobs may have this output: devices such as /dev/null, which are never done.
bool is_device(const std::string& path);

/// Removes temporary files of these outputs that killed processes left beside them (".NAME.spmm-XXXXXX.tmp").
/// Returns how many.
std::uint64_t remove_leftovers(const std::vector<std::string>& outs);

}  // namespace spmm::batch
