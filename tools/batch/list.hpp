// The command line of spmm-batch, and the list of jobs: one product a line, and what may be said about each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/progress_bar.hpp"
#include "spmm/options.hpp"

namespace spmm::batch {

/// One product. Paths are absolute. The command line gives the options, key=value columns of its line override them.
struct Job {
  std::uint64_t line = 0;  ///< in the list, from 1
  std::string a{}, b{}, out{};
  ProductOptions product{};
  double timeout_s = 0;        ///< 0 = none
  std::uint64_t in_bytes = 0;  ///< of A and B: check_list() fills it in
};

/// Origin of the lines of a list.
struct ListPlace {
  std::string name{};    ///< for messages
  std::string folder{};  ///< absolute; relative paths of the list start there
};

/// What is wrong with a list.
struct Problems {
  int exit_code = 0;                  ///< of the first problem; 0 = none
  std::vector<std::string> messages;  ///< the first kMaxShown of them
  std::uint64_t count = 0;

  static constexpr std::size_t kMaxShown = 20;
  void add(int code, const std::string& message);
};

/// Sets an option by its name, which is the same on the command line and in a column; false if there is none of that
/// name. Errors: UsageError that names `where`.
bool set_option(Job& job, std::string_view key, const std::string& value, const std::string& where);

/// A named kernel names its backend, too. Errors: UsageError (the job names another one).
void settle_backend(Job& job, const std::string& where);

/// "A<tab>B<tab>OUT[<tab>key=value]...": nothing for an empty line or a comment (#).
/// Values: defaults = a job without paths. Errors: FormatError, UsageError; both name list and line.
std::optional<Job> parse_job_line(std::string_view line, std::uint64_t number, const ListPlace& place,
                                  const Job& defaults);

/// A whole list. Values: a pure function of the text; it reads no file.
std::vector<Job> parse_job_list(std::string_view text, const ListPlace& place, const Job& defaults, Problems& problems);

/// The job as a line of a list, with the options that its output or its promise depends on.
std::string job_line(const Job& job);

/// "0:1000", or "1000:" for all from there on.
std::string rows_text(RowRange rows);

/// Absolute path without "//", "/./" and "/../" (links are not followed). Values: a relative path starts at `folder`,
/// or at the working folder if that is empty. Errors: InputError (the working folder was deleted).
std::string absolute_path(std::string_view path, const std::string& folder = "");

/// Seconds from "30", "1.5", "30s", "5m", "2h", "1d". Errors: UsageError that names `where`.
double parse_seconds(const std::string& text, const std::string& where);

// ---- the command line

/// Values: 0 <= index < count.
struct Shard {
  std::uint64_t index = 0;
  std::uint64_t count = 1;

  /// Whether it has the job at this position of the list: every count-th one.
  [[nodiscard]] bool has(std::uint64_t position) const { return position % count == index; }
};

/// "2/8", numbered from 1. Errors: UsageError.
Shard parse_shard(const std::string& text, const std::string& where);

/// A file that each shard writes for itself: "r.3-of-8.json" for "r.json". Values: unchanged if there is one shard
/// alone, and for "", "-" and devices.
std::string file_of_shard(const std::string& path, const Shard& shard);

struct BatchOptions {
  std::string list;  ///< path; "-" = standard input
  Job defaults;      ///< options of jobs whose line does not give them
  Shard shard;
  unsigned num_threads = 0;              ///< host threads of all workers; 0 = every core
  std::uint64_t memory_limit_bytes = 0;  ///< host, all jobs together; 0 = most of what is free
  unsigned max_in_flight = 0;            ///< jobs at once on the cores, and on each GPU; 0 = plan_workers() decides
  double grace_s = 20;
  std::string log;  ///< of all shards; "" = none
  bool resume = false;
  std::string report;  ///< "" = none, "-" = standard output
  bool dry_run = false;
  bool quiet = false;
  cli::ProgressMode progress = cli::ProgressMode::automatic;
  std::optional<std::string> answer{};  ///< to --help and the like: print it, nothing else
  std::vector<std::string> command;
};

/// Reads SPMM_* variables, then the arguments, which win. Errors: UsageError.
BatchOptions parse_batch_options(int argc, const char* const* argv);

}  // namespace spmm::batch
