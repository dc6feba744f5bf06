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

struct BatchOptions {
  std::string list;  ///< path; "-" = standard input
  JobOptions defaults;
  Shard shard;
  std::string gpus = "auto";
  unsigned num_threads = 0;              ///< host threads of all workers; 0 = every core
  std::uint64_t memory_limit_bytes = 0;  ///< host, all jobs together; 0 = most of what is free
  unsigned max_in_flight = 0;            ///< jobs at once in a worker; 0 = by their size
  double grace_s = 20;
  std::optional<std::string> journal;  ///< folder; nothing = none
  bool resume = false;
  bool retry_failed = false;
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
