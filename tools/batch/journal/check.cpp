// Checks of a list before work starts; removal of temporary files that killed processes left.
#include "tools/batch/journal/check.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <map>
#include <set>
#include <string_view>

#include "base/text.hpp"
#include "cli/exit_codes.hpp"
#include "io/files/paths.hpp"
#include "io/system/retried.hpp"
#include "spmm/error.hpp"

namespace spmm::batch {
namespace {

using FileId = std::pair<std::uint64_t, std::uint64_t>;  // device, inode
constexpr std::string_view kTempStart = ".spmm-";
constexpr std::string_view kTempEnd = ".tmp";
constexpr std::size_t kTempLetters = 6;

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string name_of(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

std::string where(const std::string& list, const Job& job) {
  return text(list, ":", job.line, ": ");
}

std::string own_problem(const std::string& path, const std::string& what) {
  return text(path, " is ", what, "; give one of them another name");
}

bool is_same(const FileState& x, const FileState& y) {
  return x.exists && y.exists && x.device == y.device && x.inode == y.inode;
}

/// Looks at each path once.
class StateCache {
 public:
  const FileState& operator()(const std::string& path) {
    const auto [at, is_new] = states_.try_emplace(path);
    if (is_new) at->second = state_of(path);
    return at->second;
  }

 private:
  std::unordered_map<std::string, FileState> states_;
};

/// The comparisons that need no file.
void check_names(const std::vector<Job>& jobs, const std::string& list, ListProblems& problems) {
  std::unordered_map<std::string_view, std::uint64_t> inputs;
  std::unordered_map<std::string_view, std::uint64_t> outs;
  inputs.reserve(2 * jobs.size());
  outs.reserve(jobs.size());
  for (const Job& job : jobs) {
    inputs.try_emplace(job.a, job.line);
    inputs.try_emplace(job.b, job.line);
  }
  for (const Job& job : jobs) {
    const auto [other, is_new] = outs.try_emplace(job.out, job.line);
    if (!is_new && !is_device(job.out)) {
      problems.add(cli::kBadData, text(where(list, job), job.out, " is the output of line ", other->second,
                                       " already; give each job an output of its own"));
    }
    const auto input = inputs.find(job.out);
    if (input == inputs.end()) continue;
    problems.add(cli::kBadData, text(where(list, job), job.out, " is an input of line ", input->second,
                                     "; give the output another name"));
  }
}

/// The comparisons by device and inode, and what has to be there.
class FileCheck {
 public:
  FileCheck(const std::string& list, const OwnFiles& own, ListProblems& problems)
      : list_(list), own_(own), problems_(problems) {}

  void check_inputs(const Job& job) {
    for (const std::string* path : {&job.a, &job.b}) {
      const FileState& state = states_(*path);
      if (!state.exists) {
        add(cli::kNoInput, job,
            text(*path, " is not there; check the path (relative ones start at the list's folder)"));
      } else if (!state.is_regular) {
        add(cli::kNoInput, job, text(*path, " is no regular file; name a matrix file"));
      } else if (const auto what = own_.find(state, states_(folder_of(*path)), name_of(*path)); !what.empty()) {
        add(cli::kBadData, job, own_problem(*path, what));
      } else {
        inputs_.emplace(FileId{state.device, state.inode}, &job);
      }
    }
  }

  void check_out(const Job& job) {
    struct stat info {};
    const bool exists = ::lstat(job.out.c_str(), &info) == 0;
    if (exists && S_ISCHR(info.st_mode)) return;
    if (exists && S_ISDIR(info.st_mode)) {
      return add(cli::kCannotCreate, job, text(job.out, " is a directory; name a file inside it"));
    }
    std::string target = job.out;
    if (exists && S_ISLNK(info.st_mode)) {
      target = io::follow_links(job.out).string();  // what the link points to is replaced
      if (is_device(target)) return;
    }
    const FileState state = state_of(target);
    if (const auto what = own_.find(state, states_(folder_of(target)), name_of(target)); !what.empty()) {
      return add(cli::kBadData, job, own_problem(job.out, what));
    }
    if (state.exists) {
      const auto input = inputs_.find(FileId{state.device, state.inode});
      if (input != inputs_.end()) {
        if (input->second->a == job.out || input->second->b == job.out) return;  // was found by name
        return add(cli::kBadData, job,
                   text(job.out, " is the same file as an input of line ", input->second->line,
                        "; give the output another name"));
      }
    }
    check_folder(job, target);
  }

 private:
  void check_folder(const Job& job, const std::string& target) {
    const std::string folder = folder_of(target);
    const FileState& state = states_(folder);
    if (!state.is_folder) {
      return add(cli::kCannotCreate, job, text(folder, " is no folder; create it (mkdir -p ", folder, ")"));
    }
    const auto [other, is_new] = outs_.try_emplace(text(state.device, ':', state.inode, '/', name_of(target)), &job);
    if (is_new || other->second->out == job.out) return;  // the same text twice was found by name
    add(cli::kBadData, job,
        text(job.out, " is the output of line ", other->second->line,
             " under another name; give each "
             "job an output of its own"));
  }

  void add(int code, const Job& job, const std::string& problem) { problems_.add(code, where(list_, job) + problem); }

  const std::string& list_;
  const OwnFiles& own_;
  ListProblems& problems_;
  StateCache states_;
  std::map<FileId, const Job*> inputs_;
  std::unordered_map<std::string, const Job*> outs_;
};

/// NAME of ".NAME.spmm-XXXXXX.tmp"; "" if it is no such name.
std::string_view output_of_temp(std::string_view name) {
  constexpr std::size_t kAdded = kTempStart.size() + kTempLetters + kTempEnd.size();
  if (name.size() <= 1 + kAdded || name[0] != '.' || !name.ends_with(kTempEnd)) return {};
  const std::string_view output = name.substr(1, name.size() - 1 - kAdded);
  return name.substr(1 + output.size(), kTempStart.size()) == kTempStart ? output : std::string_view{};
}

/// Removes a temporary file if the process that wrote it has ended: then its lock is free.
bool remove_abandoned(int folder_fd, const char* name) {
  constexpr int kFlags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  // NFS locks only what is open for writing.
  io::Descriptor file(io::retried([&] { return ::openat(folder_fd, name, O_RDWR | kFlags); }));
  if (!file.is_open()) file = io::Descriptor(io::retried([&] { return ::openat(folder_fd, name, O_RDONLY | kFlags); }));
  struct stat info {};
  if (!file.is_open() || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  const bool is_free = io::lock_within(file.get(), LOCK_EX | LOCK_NB) == 0;
  return is_free && ::unlinkat(folder_fd, name, 0) == 0;
}

}  // namespace

void OwnFiles::add(const std::string& what, const std::string& path) {
  if (path.empty() || path == "-" || is_device(path)) return;
  const std::string target =
      io::follow_links(absolute_path(path, path.starts_with('/') ? "" : working_folder())).string();
  if (const std::string other = find(target); !other.empty()) {
    throw UsageError(what, text(path, " is ", other), "name another file");
  }
  const std::string shown = what == "--journal" ? "the journal's folder" : "the file of " + what;
  files_.push_back({.what = what.starts_with("--") ? shown : what,
                    .name = name_of(target),
                    .state = state_of(target),
                    .folder = state_of(folder_of(target))});
}

void OwnFiles::add_journal(const std::string& folder) {
  add("--journal", folder.substr(0, folder.find_last_not_of('/') + 1));
  journal_ = state_of(folder);
  for (const OwnFile& file : files_) {
    if (!is_of_journal(file.folder, file.name)) continue;
    throw UsageError("--journal", text(folder, " holds ", file.what, " under a name that the journal may use"),
                     "choose another --journal");
  }
}

bool OwnFiles::is_of_journal(const FileState& folder, const std::string& name) const {
  return (name.ends_with(".journal") || name.ends_with(".lock")) && is_same(folder, journal_);
}

std::string OwnFiles::find(const FileState& state, const FileState& folder, const std::string& name) const {
  for (const OwnFile& file : files_) {
    if (is_same(state, file.state) || (name == file.name && is_same(folder, file.folder))) return file.what;
  }
  return is_of_journal(folder, name) ? "a file of the journal" : "";
}

std::string OwnFiles::find(const std::string& path) const {
  if (files_.empty() && !journal_.exists) return "";
  try {
    const std::string target = io::follow_links(path).string();
    return find(state_of(target), state_of(folder_of(target)), name_of(target));
  } catch (const OutputError&) {
    return "";  // links that lead nowhere: the job will say so
  }
}

std::string OwnFiles::problem_of(const Job& job) const {
  for (const std::string* path : {&job.a, &job.b, &job.out}) {
    if (is_device(*path)) continue;
    if (const std::string what = find(*path); !what.empty()) return own_problem(*path, what);
  }
  return "";
}

void ListProblems::add(int code, const std::string& message) {
  if (num_problems++ == 0) exit_code = code;
  if (messages.size() < kMaxProblems) messages.push_back(message);
}

bool is_device(const std::string& path) {
  if (path == "/dev/null") return true;
  if (!path.starts_with("/dev/")) return false;
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISCHR(info.st_mode);
}

ListProblems check_list(const std::vector<Job>& jobs, const std::vector<std::size_t>& mine, const std::string& name,
                        const OwnFiles& own) {
  ListProblems problems;
  check_names(jobs, name, problems);
  FileCheck files(name, own, problems);
  for (const std::size_t j : mine) files.check_inputs(jobs[j]);
  for (const std::size_t j : mine) files.check_out(jobs[j]);
  return problems;
}

std::uint64_t remove_leftovers(const std::vector<std::string>& outs) {
  std::map<std::string, std::set<std::string>> names_by_folder;
  for (const std::string& out : outs) {
    if (is_device(out)) continue;
    names_by_folder[folder_of(out)].insert(
        name_of(out).substr(0, NAME_MAX - 1 - kTempStart.size() - kTempLetters - kTempEnd.size()));
  }
  std::uint64_t removed = 0;
  for (const auto& [folder, names] : names_by_folder) {
    DIR* const entries = ::opendir(folder.c_str());
    if (entries == nullptr) continue;
    while (const dirent* entry = ::readdir(entries)) {
      const std::string_view output = output_of_temp(entry->d_name);
      if (output.empty() || !names.contains(std::string(output))) continue;
      removed += remove_abandoned(::dirfd(entries), entry->d_name) ? 1 : 0;
    }
    ::closedir(entries);
  }
  return removed;
}

}  // namespace spmm::batch
