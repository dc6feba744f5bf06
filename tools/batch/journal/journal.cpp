// The journal of a list: lines, locks, and what counts as done.
#include "tools/batch/journal/journal.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <climits>
#include <fstream>
#include <thread>

#include "base/text.hpp"
#include "cli/exit_codes.hpp"
#include "io/system/retried.hpp"
#include "spmm/error.hpp"
#include "tools/batch/list/line_feed.hpp"

namespace spmm::batch {
namespace {

constexpr std::string_view kEnding = ".journal";
constexpr std::string_view kDone = "done.3";  // of version 3 of the lines
constexpr std::string_view kFailed = "failed.3";
constexpr std::string_view kEndMark = "\t.";
constexpr std::chrono::seconds kWaitForDying{10};  // workers of a killed supervisor still hold its locks for a moment
constexpr std::chrono::milliseconds kLookEvery{20};

/// Reads tab-separated fields one after the other; good() turns false at the first that is not there or no number.
class Fields {
 public:
  explicit Fields(std::string_view line) : left_(line) {}

  std::string_view next() {
    if (ended_) good_ = false;
    const std::size_t tab = left_.find('\t');
    const std::string_view field = left_.substr(0, tab);
    ended_ = tab == std::string_view::npos;
    left_ = ended_ ? std::string_view{} : left_.substr(tab + 1);
    return field;
  }

  /// All that is left, tabs among it.
  std::string_view rest() {
    if (ended_) good_ = false;
    ended_ = true;
    return left_;
  }

  template <class T>
  T number() {
    const std::string_view field = next();
    T value{};
    const auto [stop, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (error != std::errc{} || stop != field.data() + field.size()) good_ = false;
    return value;
  }

  [[nodiscard]] bool good() const { return good_; }

 private:
  std::string_view left_;
  bool ended_ = false;
  bool good_ = true;
};

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

/// "HOST PID" of a lock's holder.
struct Holder {
  std::string host;
  pid_t pid = 0;

  /// Whether it is a process of this host that is no more.
  [[nodiscard]] bool is_gone() const { return host == host_name() && pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH; }
};

Holder holder_of(const std::string& path) {
  std::ifstream file(path);
  Holder holder;
  file >> holder.host >> holder.pid;
  return holder;
}

/// Opens a file of the journal's folder, which holds no others. Errors: IoError (a pipe or a device, which may never
/// end).
io::Descriptor open_regular(const std::string& path, int flags) {
  io::Descriptor fd(io::retried([&] { return ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0666); }));
  struct stat info {};
  if (!fd.is_open() || ::fstat(fd.get(), &info) != 0 || S_ISREG(info.st_mode)) return fd;
  throw IoError(path, text("is ", io::kind_text(info.st_mode), ", expected a file of the journal"),
                "remove it or choose another --journal");
}

void read_journal_file(const std::string& path, Journal& journal) {
  const io::Descriptor file = open_regular(path, O_RDONLY);
  if (!file.is_open()) {
    throw IoError(path, text("cannot be read (", io::error_text(errno), ")"),
                  "make it readable or choose another --journal");
  }
  for (LineFeed lines(file.get(), path); !lines.has_ended();) {
    for (const std::string& line : lines.read_lines()) {
      auto record = parse_journal_line(line);
      if (!record) continue;
      const auto [at, is_new] = journal.try_emplace(record->key, *record);
      if (!is_new && at->second.time_ms <= record->time_ms) at->second = std::move(*record);
    }
  }
}

}  // namespace

FileState state_of(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return {};
  return {.identity = {.size = static_cast<std::uint64_t>(info.st_size),
                       .mtime_ns = info.st_mtim.tv_sec * 1'000'000'000LL + info.st_mtim.tv_nsec},
          .exists = true,
          .is_regular = S_ISREG(info.st_mode),
          .is_folder = S_ISDIR(info.st_mode),
          .device = info.st_dev,
          .inode = info.st_ino};
}

std::string key_of(const Job& job) {
  std::string key = text(job.a, '\t', job.b, '\t', job.out);
  if (job.options.transpose_a) key += "\ttranspose-a";  // another product
  if (job.options.transpose_b) key += "\ttranspose-b";
  if (job.options.rows != RowRange{}) key += '\t' + rows_text(job.options.rows);
  std::replace(key.begin(), key.end(), '\n', '\t');  // a line of the journal holds none
  return key;
}

std::string options_text(const JobOptions& options) {
  return text(backend_name(options.backend), ' ', options.kernel, ' ', options.verify_blocks, ' ', options.durable, ' ',
              options.no_clobber, ' ', options.timeout_s, ' ', static_cast<int>(options.on_saturation));
}

std::string journal_line(const JournalRecord& record) {
  // Strings, not a stream: if there is no memory, a stream would leave a part out and say nothing.
  std::string line(record.exit_code == 0 ? kDone : kFailed);
  const auto add = [&](const std::string& field) { line.append(1, '\t').append(field); };
  add(std::to_string(record.time_ms));
  add(std::to_string(record.exit_code));
  for (const FileIdentity& file : {record.a, record.b, record.out}) {
    add(std::to_string(file.size));
    add(std::to_string(file.mtime_ns));
  }
  add(std::to_string(record.out_inode));
  add(std::to_string(record.verified));
  add(std::to_string(static_cast<int>(record.durable)));
  add(std::to_string(record.saturated_elements));
  add(record.options);
  add(record.key);
  return line.append(kEndMark).append(1, '\n');
}

std::optional<JournalRecord> parse_journal_line(std::string_view line) {
  if (!line.ends_with(kEndMark)) return std::nullopt;
  Fields fields(line.substr(0, line.size() - kEndMark.size()));
  const std::string_view word = fields.next();
  JournalRecord record;
  record.time_ms = fields.number<std::int64_t>();
  record.exit_code = fields.number<int>();
  for (FileIdentity* file : {&record.a, &record.b, &record.out}) {
    file->size = fields.number<std::uint64_t>();
    file->mtime_ns = fields.number<std::int64_t>();
  }
  record.out_inode = fields.number<std::uint64_t>();
  record.verified = fields.number<std::uint64_t>();
  record.durable = fields.number<int>() != 0;
  record.saturated_elements = fields.number<std::uint64_t>();
  record.options = std::string(fields.next());
  record.key = std::string(fields.rest());
  if (!fields.good() || word != (record.exit_code == 0 ? kDone : kFailed)) return std::nullopt;
  return record;
}

void JournalWriter::append(const JournalRecord& record) {
  if (fd_ < 0) return;
  const std::string line = (is_torn_.exchange(false) ? "\n" : "") + journal_line(record);
  const ssize_t written = io::retried([&] { return ::write(fd_, line.data(), line.size()); });
  if (written == static_cast<ssize_t>(line.size())) return;
  is_torn_.store(true);
  throw IoError("journal", written < 0 ? io::error_text(errno) : "the disk is full",
                "free space in the journal's folder and go on with --resume");
}

JournalFolder::JournalFolder(std::string path, const Shard& shard)
    : path_(std::move(path)), shard_name_(name_of(shard)) {
  if (::mkdir(path_.c_str(), 0777) != 0 && errno != EEXIST) {
    throw OutputError(path_, text("cannot create the journal's folder (", io::error_text(errno), ")"),
                      "choose another --journal, or run with --no-journal");
  }
  all_lock_ = lock("all.lock", shard.count == 1 ? LOCK_EX : LOCK_SH);
  shard_lock_ = lock(shard_name_ + ".lock", LOCK_EX);
}

io::Descriptor JournalFolder::lock(const std::string& name, int kind) const {
  const std::string file = path_ + "/" + name;
  io::Descriptor fd = open_regular(file, O_RDWR | O_CREAT);
  if (!fd.is_open()) {
    throw OutputError(file, text("cannot create the lock (", io::error_text(errno), ")"), "choose another --journal");
  }
  const auto give_up = std::chrono::steady_clock::now() + kWaitForDying;
  while (const int error = io::lock_within(fd.get(), kind | LOCK_NB)) {
    if (error == ETIMEDOUT) io::throw_no_lock(file);
    if (error == ENOLCK || error == ENOSYS || error == EOPNOTSUPP) return fd;  // a file system without locks
    const Holder holder = holder_of(file);
    if (holder.is_gone() && std::chrono::steady_clock::now() < give_up) {
      std::this_thread::sleep_for(kLookEvery);
      continue;
    }
    throw OutputError(path_, text("the journal is in use by process ", holder.pid, " on ", holder.host),
                      "wait for its end, or choose another --journal");
  }
  const std::string self = text(host_name(), ' ', ::getpid(), '\n');
  if (io::retried([&] { return ::ftruncate(fd.get(), 0); }) != 0 ||
      io::retried([&] { return ::pwrite(fd.get(), self.data(), self.size(), 0); }) < 0) {
    throw OutputError(file, text("cannot write the lock (", io::error_text(errno), ")"), "choose another --journal");
  }
  return fd;
}

Journal JournalFolder::read() const {
  Journal journal;
  DIR* const folder = ::opendir(path_.c_str());
  if (folder == nullptr) throw IoError(path_, io::error_text(errno), "make the journal's folder readable");
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(folder)) names.emplace_back(entry->d_name);
  ::closedir(folder);
  for (const std::string& name : names) {
    if (name.ends_with(kEnding)) read_journal_file(path_ + "/" + name, journal);
  }
  return journal;
}

io::Descriptor JournalFolder::open_writer(const std::string& writer) const {
  const std::string file = text(path_, '/', shard_name_, '.', writer, kEnding);
  io::Descriptor fd = open_regular(file, O_RDWR | O_APPEND | O_CREAT);
  if (!fd.is_open()) {
    throw OutputError(file, text("cannot create the journal (", io::error_text(errno), ")"),
                      "choose another --journal");
  }
  const off_t size = ::lseek(fd.get(), 0, SEEK_END);
  char last = '\n';
  if (size > 0 && io::retried([&] { return ::pread(fd.get(), &last, 1, size - 1); }) == 1 && last != '\n') {
    // A process died while it wrote: its torn line must not swallow the next one.
    if (io::retried([&] { return ::write(fd.get(), "\n", 1); }) != 1)
      throw OutputError(file, io::error_text(errno), "free space for the journal");
  }
  return fd;
}

bool is_done(const Journal& journal, const Job& job) {
  const auto found = journal.find(key_of(job));
  if (found == journal.end() || found->second.exit_code != 0) return false;
  const JournalRecord& record = found->second;
  if (job.options.on_saturation == OnSaturation::error && record.saturated_elements != 0) return false;
  if (record.verified < job.options.verify_blocks || (job.options.durable && !record.durable)) return false;
  const FileState out = state_of(job.out);
  if (!out.is_regular) return false;
  return state_of(job.a).identity == record.a && state_of(job.b).identity == record.b && out.identity == record.out &&
         out.inode == record.out_inode;
}

bool has_failed(const Journal& journal, const Job& job) {
  const auto found = journal.find(key_of(job));
  if (found == journal.end() || found->second.exit_code == 0) return false;
  const JournalRecord& record = found->second;
  if (is_of_machine(record.exit_code)) return false;
  return record.options == options_text(job.options) && state_of(job.a).identity == record.a &&
         state_of(job.b).identity == record.b;
}

bool may_pass(int exit_code) {
  return exit_code == cli::kUnavailable || exit_code == cli::kInternal || exit_code == cli::kMemory ||
         exit_code == cli::kIoError || exit_code == cli::kInterrupted;
}

bool is_of_machine(int exit_code) {
  return exit_code == cli::kIoError || exit_code == cli::kCannotCreate || exit_code == cli::kMemory;
}

bool breaks_worker(int exit_code) {
  return exit_code == cli::kUnavailable || exit_code == cli::kInternal;
}

}  // namespace spmm::batch
