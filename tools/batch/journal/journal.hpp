// What is done and what failed, kept across runs: lines in files that are only ever appended to.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/system/descriptor.hpp"
#include "tools/batch/list/jobs.hpp"
#include "tools/batch/list/shard.hpp"

namespace spmm::batch {

/// Says whether a file is still the one it was.
struct FileIdentity {
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;  ///< 0 with size 0: no such file

  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

/// What stat() says about a file.
struct FileState {
  FileIdentity identity{};
  bool exists = false;
  bool is_regular = false;
  bool is_folder = false;
  std::uint64_t device = 0, inode = 0;
};
FileState state_of(const std::string& path);

/// Names a product: its three paths with tabs between, and which operands are transposed.
std::string key_of(const Job& job);

/// Changes when anything changes that may turn a failure into a success: backend, kernel, limits. Holds no tab.
std::string options_text(const JobOptions& options);

struct JournalRecord {
  std::string key{};
  std::int64_t time_ms = 0;  ///< since 1970; the latest record of a key counts
  int exit_code = 0;         ///< 0 = done
  FileIdentity a{}, b{};     ///< as they were before the product
  FileIdentity out{};        ///< as it was after it
  std::uint64_t out_inode = 0;
  std::uint64_t verified = 0;  ///< JobOptions::verify_blocks
  bool durable = false;
  std::uint64_t saturated_elements = 0;
  std::string options{};  ///< options_text()
};

/// One line, with a mark at its end: a torn one lacks it.
std::string journal_line(const JournalRecord& record);
/// Nothing if the line is torn, of an earlier version, or not one of ours.
std::optional<JournalRecord> parse_journal_line(std::string_view line);

/// Appends lines to one journal file. Each line is one write(), so that a process may die at any moment.
class JournalWriter {
 public:
  JournalWriter() = default;  ///< writes nothing
  explicit JournalWriter(int fd) : fd_(fd) {}
  /// Threads: from several at once. Errors: IoError.
  void append(const JournalRecord& record);

 private:
  int fd_ = -1;
  std::atomic<bool> is_torn_{false};  ///< the last line was cut (full disk): the next starts with a newline
};

using Journal = std::unordered_map<std::string, JournalRecord>;

/// The folder of the journal files, locked for this shard while the object, or a worker forked meanwhile, lives.
class JournalFolder {
 public:
  /// Creates the folder if it is not there. Values: a run of the whole list excludes all others, a shard excludes
  /// itself and runs of the whole list. Errors: OutputError (in use: names host and process; cannot be created).
  JournalFolder(std::string path, const Shard& shard);

  /// Everything recorded so far, by anyone. Errors: IoError.
  [[nodiscard]] Journal read() const;

  /// Opens the file of one writer ("cpu", "gpu0", "supervisor"). Errors: OutputError.
  [[nodiscard]] io::Descriptor open_writer(const std::string& writer) const;

 private:
  [[nodiscard]] io::Descriptor lock(const std::string& name, int kind) const;

  std::string path_;
  std::string shard_name_;
  io::Descriptor all_lock_;
  io::Descriptor shard_lock_;
};

/// Whether the journal says that this job needs no run: its inputs are the same, its output is the file that the run
/// wrote, and that run promised what the job asks for now (verification, durability, no saturation) or more. Backend,
/// kernel and limits do not count: they do not change the bytes. Nor does the device number, which differs between
/// nodes.
bool is_done(const Journal& journal, const Job& job);

/// Whether it failed before, with the same inputs and options. What the disk or the memory was to blame for does not
/// count: it is worth another attempt.
bool has_failed(const Journal& journal, const Job& job);

// What the exit code of a failed job says about trying again.

/// Whether the same job may succeed another time: not what its files or its command are to blame for.
bool may_pass(int exit_code);

/// Whether the machine is to blame and not the job: no space, no permission, a folder that is gone, too little memory.
bool is_of_machine(int exit_code);

/// Whether the worker that reported it can no longer be trusted: a fault on a device poisons the process's context.
bool breaks_worker(int exit_code);

}  // namespace spmm::batch
