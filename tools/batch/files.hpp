// What the files of a list say: whether they fit it, and which jobs are done.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "io/system/descriptor.hpp"
#include "tools/batch/list.hpp"

namespace spmm::batch {

/// Files that the run has for itself, which no job may read or write: "the list" or the option, and the path.
using OwnFiles = std::vector<std::pair<std::string, std::string>>;

/// What is wrong with the files of a list. The names of all jobs are compared (one OUT twice, an OUT that is an input);
/// files are examined for the jobs of the shard alone: missing inputs and folders, links to files of other jobs, files
/// of the run itself. Sets Job::in_bytes of the shard's jobs.
/// Errors: UsageError (two of the run's own files are one); OutputError (an OUT is a link without end).
void check_list(std::vector<Job>& jobs, const Shard& shard, const std::string& list, const OwnFiles& own,
                Problems& problems);

/// Whether any number of jobs may have this output: devices such as /dev/null, which are never done.
bool is_device(const std::string& path);

/// Says whether a file is still the one it was.
struct FileState {
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  bool exists = false;
  bool is_regular = false;  ///< and no device or folder
};
FileState state_of(const std::string& path);

/// The job's line with the states of its files: those of A and B before the product, that of OUT after it. A job is
/// done if the log holds the line that its files give now.
std::string log_line(const Job& job, const FileState& a, const FileState& b, const FileState& out);

using DoneLines = std::unordered_set<std::string>;

/// The lines of a log, and of the logs of shards ("jobs.tsv.3-of-8.log" beside "jobs.tsv.log"); those that are not
/// there have none. Errors: IoError.
DoneLines read_logs(const std::string& path);

/// Whether the log holds the job's line as its files are now.
bool is_done(const DoneLines& lines, const Job& job);

/// The log of one run, locked while the object lives.
class Log {
 public:
  /// Errors: OutputError (cannot be created, is in use by another run, is no file; /dev/null keeps nothing).
  explicit Log(std::string path);

  /// Appends a line by one write(): the process may die at any moment. Errors: IoError.
  void append(const std::string& line);

  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  std::string path_;
  io::Descriptor fd_;
  bool is_torn_ = false;  ///< the last line has no end: the next one starts with a newline
};

}  // namespace spmm::batch
