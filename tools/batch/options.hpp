// The command line of spmm-batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/progress_bar.hpp"
#include "tools/batch/list.hpp"

namespace spmm::batch {

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
