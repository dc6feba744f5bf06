// A list is checked whole before work starts; and what a killed run left behind is removed.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/batch/journal/journal.hpp"
#include "tools/batch/list/jobs.hpp"

namespace spmm::batch {

/// The files that a run has for itself, which no job may read or write: the list, the report, the journal.
class OwnFiles {
 public:
  /// Values: what = "the list" or the option. Errors: UsageError if an earlier one is the same file.
  void add(const std::string& what, const std::string& path);
  /// The journal's folder, and the files in it that have names of a journal. Errors: UsageError.
  void add_journal(const std::string& folder);

  /// What a file of these properties is; "" = none of them. Values: state = of the file, folder = of its folder.
  [[nodiscard]] std::string find(const FileState& state, const FileState& folder, const std::string& name) const;
  /// The same for a path, which is looked up.
  [[nodiscard]] std::string find(const std::string& path) const;
  /// What is wrong with a job; "" = nothing.
  [[nodiscard]] std::string problem_of(const Job& job) const;

 private:
  struct OwnFile {
    std::string what, name;
    FileState state, folder;
  };
  [[nodiscard]] bool is_of_journal(const FileState& folder, const std::string& name) const;

  std::vector<OwnFile> files_;
  FileState journal_{};
};

struct ListProblems {
  int exit_code = 0;                  ///< of the first problem; 0 = none
  std::vector<std::string> messages;  ///< the first kMaxProblems of them
  std::uint64_t num_problems = 0;

  void add(int code, const std::string& message);
};

/// What is wrong with a list. The text of all jobs is compared (one OUT twice, an OUT that is an input); files are
/// examined for the jobs `mine` alone: missing inputs and folders, OUT that is an input under another name, files of
/// the run itself. Files: one stat() per different input and folder, one lstat() per OUT.
ListProblems check_list(const std::vector<Job>& jobs, const std::vector<std::size_t>& mine, const std::string& name,
                        const OwnFiles& own);

/// Whether any number of jobs may have this output: devices such as /dev/null, which are never done.
bool is_device(const std::string& path);

/// Removes temporary files of these outputs that killed processes left next to them (".NAME.spmm-XXXXXX.tmp"): those
/// that no process holds locked, and none on a file system without locks. Returns how many.
std::uint64_t remove_leftovers(const std::vector<std::string>& outs);

}  // namespace spmm::batch
