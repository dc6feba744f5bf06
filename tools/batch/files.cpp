// Checks of a list before work starts, and the log of finished jobs.
#include "tools/batch/batch.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <unordered_map>

#include "base/text.hpp"
#include "cli/exit_codes.hpp"
#include "io/files/paths.hpp"
#include "io/system/descriptor.hpp"
#include "spmm/error.hpp"

namespace spmm::batch {
namespace {

namespace fs = std::filesystem;

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string name_of(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

/// A, B, and the pattern if there is one.
std::vector<std::string> inputs_of(const Job& job) {
  std::vector<std::string> paths = {job.a, job.b};
  if (!job.product.pattern.empty()) paths.push_back(job.product.pattern.string());
  return paths;
}

class FileCheck {
 public:
  FileCheck(const std::string& list, Problems& problems) : list_(list), problems_(problems) {}

  void add_own(const std::string& what, const std::string& path) {
    if (path.empty() || path == "-" || is_device(path)) return;
    const std::string place = place_of(io::follow_links(absolute_path(path)).string());
    const auto [other, is_new] = own_.try_emplace(place, what.starts_with("--") ? "the file of " + what : what);
    if (!is_new) throw UsageError(what, text(path, " is ", other->second, ", too"), "name another file");
  }

  /// Values: examines = looks at files, too, and not at their names alone.
  void add_inputs(const Job& job, bool examines) {
    for (const std::string& path : inputs_of(job)) {
      input_places_.try_emplace(place_of(path), job.line);
      if (examines && inputs_.try_emplace(path).second) {
        if (fs::is_symlink(path, none_)) input_places_.try_emplace(place_of(fs::canonical(path, none_)), job.line);
        inputs_[path] = state_of(path);
      }
    }
  }

  /// Errors: OutputError (OUT is a link without end).
  void check_out(const Job& job, bool examines) {
    if (is_device(job.out)) return;
    const std::string target = examines ? io::follow_links(job.out).string() : job.out;  // that is replaced
    if (is_device(target)) return;
    const std::string place = place_of(target);
    const auto [other, is_new] = outs_.try_emplace(place, job.line);
    const std::string folder = folder_of(target);
    if (!is_new) {
      add(cli::kBadData, job,
          text(job.out, " is the output of line ", other->second, " already; give each job an output of its own"));
    } else if (const auto own = own_.find(place); own != own_.end()) {
      add(cli::kBadData, job, text(job.out, " is ", own->second, "; give one of them another name"));
    } else if (const auto input = input_places_.find(place); input != input_places_.end()) {
      add(cli::kBadData, job, text(job.out, " is an input of line ", input->second, "; give the output another name"));
    } else if (examines && fs::is_directory(target, none_)) {
      add(cli::kCannotCreate, job, job.out + " is a directory; name a file inside it");
    } else if (examines && !fs::is_directory(folder, none_)) {
      add(cli::kCannotCreate, job, text(folder, " is no folder; create it (mkdir -p ", folder, ")"));
    }
  }

  void check_inputs(Job& job) {
    for (const std::string& path : inputs_of(job)) {
      const FileState& state = inputs_[path];
      job.in_bytes += state.size;
      if (!state.exists) {
        add(cli::kNoInput, job, path + " is not there; check the path (relative ones start at the list's folder)");
      } else if (!state.is_regular) {
        add(cli::kNoInput, job, path + " is no regular file; name a matrix file");
      } else if (const auto own = own_.find(place_of(path)); own != own_.end()) {
        add(cli::kBadData, job, text(path, " is ", own->second, "; give one of them another name"));
      }
    }
  }

 private:
  /// The file's folder, links resolved, and its name in it: one text for all ways to a file, which may be a new one.
  std::string place_of(const std::string& path) {
    const auto [found, is_new] = folders_.try_emplace(folder_of(path));
    if (is_new) {
      const fs::path real = fs::canonical(found->first, none_);
      found->second = none_ ? found->first : real.string();
    }
    return found->second + '/' + name_of(path);
  }

  void add(int code, const Job& job, const std::string& problem) {
    problems_.add(code, text(list_, ":", job.line, ": ", problem));
  }

  const std::string& list_;
  Problems& problems_;
  std::error_code none_;
  std::unordered_map<std::string, std::string> folders_;                // by name: without links
  std::unordered_map<std::string, std::string> own_;                    // by place: what it is
  std::unordered_map<std::string, std::uint64_t> input_places_, outs_;  // by place: line
  std::unordered_map<std::string, FileState> inputs_;                   // by path
};

void read_log(const fs::path& path, DoneLines& lines) {
  std::error_code none;
  if (!fs::is_regular_file(path, none)) return;
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  for (std::string line; std::getline(file, line);) lines.insert(std::move(line));
  if (file.eof()) return;
  throw IoError(path.string(), text("cannot be read (", io::error_text(errno), ")"),
                "make it readable, or run without --resume");
}

}  // namespace

bool is_device(const std::string& path) {
  if (path == "/dev/null") return true;
  if (!path.starts_with("/dev/")) return false;
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISCHR(info.st_mode);
}

void check_list(std::vector<Job>& jobs, const Shard& shard, const std::string& list, const OwnFiles& own,
                Problems& problems) {
  FileCheck check(list, problems);
  for (const auto& [what, path] : own) check.add_own(what, path);
  for (std::size_t j = 0; j < jobs.size(); ++j) check.add_inputs(jobs[j], shard.has(j));
  for (std::size_t j = 0; j < jobs.size(); ++j) check.check_out(jobs[j], shard.has(j));
  for (std::size_t j = shard.index; j < jobs.size(); j += shard.count) check.check_inputs(jobs[j]);
}

FileState state_of(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return {};
  return {.size = static_cast<std::uint64_t>(info.st_size),
          .mtime_ns = info.st_mtim.tv_sec * 1'000'000'000LL + info.st_mtim.tv_nsec,
          .exists = true,
          .is_regular = S_ISREG(info.st_mode)};
}

std::string log_line(const Job& job, const FileState& a, const FileState& b, const FileState& out) {
  std::string line = job_line(job);
  for (const FileState& file : {a, b, out}) line += text('\t', file.size, ':', file.mtime_ns);
  if (!job.product.pattern.empty()) {
    const FileState pattern = state_of(job.product.pattern.string());
    line += text('\t', pattern.size, ':', pattern.mtime_ns);
  }
  return line;
}

DoneLines read_logs(const std::string& path) {
  DoneLines lines;
  read_log(path, lines);
  const fs::path log = path;
  const std::string start = log.stem().string() + '.';
  const std::string ending = log.extension().string();
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(log.has_parent_path() ? log.parent_path() : ".", none)) {
    const std::string name = entry.path().filename().string();
    const bool is_shard = name.starts_with(start) && name.ends_with(ending) && name.find("-of-") != std::string::npos;
    if (is_shard) read_log(entry.path(), lines);
  }
  return lines;
}

bool is_done(const DoneLines& lines, const Job& job) {
  const FileState out = state_of(job.out);
  return out.is_regular && lines.contains(log_line(job, state_of(job.a), state_of(job.b), out));
}

Log::Log(std::string path) : path_(std::move(path)) {
  const std::string remedy = "choose another --log; --log /dev/null keeps none";
  constexpr int kFlags = O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK;
  fd_ = io::Descriptor(io::retried([&] { return ::open(path_.c_str(), kFlags, 0666); }));
  struct stat info {};
  if (!fd_.is_open() || ::fstat(fd_.get(), &info) != 0) {
    throw OutputError(path_, text("the log cannot be created (", io::error_text(errno), ")"), remedy);
  }
  if (S_ISCHR(info.st_mode)) return;
  if (!S_ISREG(info.st_mode)) {
    throw OutputError(path_, text("is ", io::kind_text(info.st_mode), ", expected a file for the log"), remedy);
  }
  const int error = io::try_lock(fd_.get());
  if (error == EWOULDBLOCK) throw OutputError(path_, "the log is in use by another run", "wait for its end");
  char last = '\n';
  if (info.st_size > 0) io::retried([&] { return ::pread(fd_.get(), &last, 1, info.st_size - 1); });
  is_torn_ = last != '\n';
}

void Log::append(const std::string& line) {
  const std::string whole = (is_torn_ ? "\n" : "") + line + "\n";
  const ssize_t written = io::retried([&] { return ::write(fd_.get(), whole.data(), whole.size()); });
  is_torn_ = written != static_cast<ssize_t>(whole.size());
  if (!is_torn_) return;
  throw IoError(path_, written < 0 ? io::error_text(errno) : "the disk is full",
                "free space for the log; --resume runs again what it lacks");
}

}  // namespace spmm::batch
