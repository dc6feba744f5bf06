// Which part of a list this process runs: one of `count` shards, from --shard or from the variables of a cluster.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/batch/list/jobs.hpp"

namespace spmm::batch {

/// Values: 0 <= index < count.
struct Shard {
  std::uint64_t index = 0;
  std::uint64_t count = 1;
};

/// Looks a variable up; nothing if it is not set. In programs std::getenv.
using Variables = std::function<std::optional<std::string>(const std::string& name)>;

/// "2/8" (numbered from 1), "auto" (from the variables), "auto/8" (index from the variables of an array that does not
/// tell its length). Errors: UsageError.
Shard parse_shard(const std::string& text, const std::string& where, const Variables& variables);

/// The shard that the variables of Slurm, PBS, LSF, Open MPI or PMI stand for: tasks of an array times ranks of a step.
/// Values: num_tasks = length of the array where the variables do not tell it; 0 = not given. Errors: UsageError.
Shard shard_of_cluster(const Variables& variables, std::uint64_t num_tasks);

/// "3-of-8".
std::string name_of(const Shard& shard);

/// A file that each shard writes for itself: "r.3-of-8.json" for "r.json". Values: unchanged if there is one shard
/// alone, and for "-" and devices.
std::string file_of_shard(const std::string& path, const Shard& shard);

/// Positions of the shard's jobs in the list, in order. The shards of one list are disjoint and complete.
/// Values: without costs every count-th job; with them the dearest job first goes to the shard that has least so far.
std::vector<std::size_t> jobs_of_shard(const JobList& list, const Shard& shard);

}  // namespace spmm::batch
