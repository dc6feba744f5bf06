// The command line of spmm-batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/progress_bar.hpp"
#include "tools/batch/journal/journal.hpp"
#include "tools/batch/list/jobs.hpp"
#include "tools/batch/list/shard.hpp"

namespace spmm::batch {

/// When to stop early, as --halt of GNU parallel.
struct Halt {
  enum class When : std::uint8_t { never, soon, now };  ///< soon: what runs may finish; now: it is dropped
  enum class What : std::uint8_t { fail, success, done };
  When when = When::never;
  What what = What::fail;
  std::uint64_t count = 0;  ///< so many jobs ...
  double share = 0;         ///< ... or this share of the finished ones, and at least 3
};
/// "never", "soon,fail=1", "now,fail=10%", "soon,success=3", "now,done=5". Errors: UsageError.
Halt parse_halt(const std::string& text, const std::string& where);
bool is_reached(const Halt& halt, std::uint64_t num_done, std::uint64_t num_failed);

struct BatchOptions {
  std::string list;  ///< path; "-" = standard input
  JobOptions defaults;
  Shard shard;
  std::string gpus = "auto";
  unsigned num_threads = 0;              ///< host threads of all workers; 0 = every core
  std::uint64_t memory_limit_bytes = 0;  ///< host, all jobs together; 0 = most of what is free
  unsigned max_in_flight = 0;            ///< jobs at once in a worker; 0 = by their size
  bool keep_order = false;
  Halt halt;
  double grace_s = 20;
  std::optional<std::string> journal;  ///< folder; nothing = none
  bool resume = false;
  bool retry_failed = false;
  std::string joblog;  ///< "" = none
  std::string report;  ///< "" = none, "-" = standard output
  bool dry_run = false;
  bool quiet = false;
  cli::ProgressMode progress = cli::ProgressMode::automatic;
  std::optional<std::string> answer{};  ///< to --help and the like: print it, nothing else
  std::vector<std::string> command;
};

/// Reads SPMM_* variables, then the arguments, which win. Errors: UsageError.
BatchOptions parse_batch_options(int argc, const char* const* argv, const Variables& variables);

}  // namespace spmm::batch
