// Shards of a list, from --shard or from the variables of a cluster.
#include "tools/batch/list/shard.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <numeric>
#include <queue>

#include "base/text.hpp"
#include "cli/program.hpp"
#include "spmm/error.hpp"

namespace spmm::batch {
namespace {

constexpr std::uint64_t kMaxShards = 10'000'000;
constexpr const char* kRemedy = "give --shard I/N";

std::optional<std::uint64_t> number_of(const Variables& variables, const std::string& name) {
  const auto value = variables(name);
  if (!value || value->empty()) return std::nullopt;
  return cli::parse_count(*value, name + " (environment)", 0, kMaxShards);
}

/// Errors: UsageError unless index is one of `count`.
Shard checked(const std::string& where, std::uint64_t index, std::uint64_t count) {
  if (index < count) return {.index = index, .count = count};
  throw UsageError(where, text("index ", index, " (from 0) is not one of ", count), kRemedy);
}

/// Task of an array whose numbers go from `first` in steps. Errors: UsageError if the numbers have gaps.
Shard array_task(const std::string& name, std::uint64_t id, std::uint64_t first, std::uint64_t step,
                 std::uint64_t count) {
  if (step == 0 || id < first || (id - first) % step != 0) {
    throw UsageError(name + " (environment)", text(id, " does not fit an array from ", first, " in steps of ", step),
                     kRemedy);
  }
  return checked(name + " (environment)", (id - first) / step, count);
}

Shard slurm_array(const Variables& variables, std::uint64_t id, std::uint64_t num_tasks) {
  const std::uint64_t first = number_of(variables, "SLURM_ARRAY_TASK_MIN").value_or(0);
  const std::uint64_t step = number_of(variables, "SLURM_ARRAY_TASK_STEP").value_or(1);
  const auto count = number_of(variables, "SLURM_ARRAY_TASK_COUNT");
  const auto last = number_of(variables, "SLURM_ARRAY_TASK_MAX");
  if (!count) throw UsageError("SLURM_ARRAY_TASK_COUNT (environment)", "is not set", kRemedy);
  if (num_tasks != 0 && num_tasks != *count) {
    throw UsageError("--shard", text("auto/", num_tasks, " contradicts SLURM_ARRAY_TASK_COUNT=", *count),
                     "give --shard auto, or --shard I/N to run a part of the array again");
  }
  if (last && step != 0 && *last >= first && (*last - first) / step + 1 != *count) {
    throw UsageError("--shard auto", text("the array has ", *count, " tasks with gaps between ", first, " and ", *last),
                     kRemedy);
  }
  return array_task("SLURM_ARRAY_TASK_ID", id, first, step, *count);
}

/// An array that does not tell its length: numbered from 1, the length is given on the command line.
Shard counted_array(const std::string& name, std::uint64_t id, std::uint64_t num_tasks) {
  if (num_tasks == 0) {
    throw UsageError("--shard auto", name + " does not tell how many tasks the array has",
                     "give --shard auto/N and number the tasks from 1 to N");
  }
  return array_task(name, id, 1, 1, num_tasks);
}

Shard array_shard(const Variables& variables, std::uint64_t num_tasks) {
  if (const auto id = number_of(variables, "SLURM_ARRAY_TASK_ID")) return slurm_array(variables, *id, num_tasks);
  for (const char* name : {"PBS_ARRAY_INDEX", "PBS_ARRAYID"}) {
    if (const auto id = number_of(variables, name)) return counted_array(name, *id, num_tasks);
  }
  const auto lsf = number_of(variables, "LSB_JOBINDEX");
  if (lsf && *lsf != 0) {  // 0 = not an array
    const auto last = number_of(variables, "LSB_JOBINDEX_END");
    const std::uint64_t step = number_of(variables, "LSB_JOBINDEX_STEP").value_or(1);
    if (num_tasks == 0 && last && step == 1) return array_task("LSB_JOBINDEX", *lsf, 1, 1, *last);
    return counted_array("LSB_JOBINDEX", *lsf, num_tasks);
  }
  if (num_tasks != 0) throw UsageError("--shard", "auto/N outside an array", kRemedy);
  return {};
}

/// Rank among processes started side by side. mpirun inside Slurm starts its ranks through a step of its own, so its
/// variables come first; SLURM_NTASKS alone is also set in a batch script, which is one process.
std::optional<Shard> rank_shard(const Variables& variables) {
  constexpr std::array<std::array<const char*, 2>, 3> kNames = {{{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                                                 {"PMI_RANK", "PMI_SIZE"},
                                                                 {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}}};
  for (const auto& [rank_name, size_name] : kNames) {
    const auto rank = number_of(variables, rank_name);
    const auto size = number_of(variables, size_name);
    if (rank && size) return checked(std::string(rank_name) + " (environment)", *rank, *size);
  }
  if (variables("SLURM_STEP_ID")) {
    const auto rank = number_of(variables, "SLURM_PROCID");
    const auto size = number_of(variables, "SLURM_NTASKS");
    if (rank && size) return checked("SLURM_PROCID (environment)", *rank, *size);
  }
  return std::nullopt;
}

/// Positions with the dearest job first; equal costs in list order.
std::vector<std::size_t> dearest_first(const std::vector<Job>& jobs) {
  std::vector<std::size_t> order(jobs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t x, std::size_t y) { return jobs[x].cost_micro > jobs[y].cost_micro; });
  return order;
}

}  // namespace

Shard shard_of_cluster(const Variables& variables, std::uint64_t num_tasks) {
  const Shard array = array_shard(variables, num_tasks);
  const auto rank = rank_shard(variables);
  const bool in_a_job =
      variables("SLURM_ARRAY_TASK_ID") || variables("SLURM_JOB_ID") || variables("PBS_JOBID") || variables("LSB_JOBID");
  if (!rank && !in_a_job && array.count == 1 && !variables("PBS_ARRAY_INDEX") && !variables("LSB_JOBINDEX")) {
    throw UsageError("--shard auto", "no variable of Slurm, PBS, LSF, Open MPI or PMI is set", kRemedy);
  }
  const Shard inner = rank.value_or(Shard{});
  return {.index = array.index * inner.count + inner.index, .count = array.count * inner.count};
}

Shard parse_shard(const std::string& given, const std::string& where, const Variables& variables) {
  const std::size_t slash = given.find('/');
  const std::string left = given.substr(0, slash);
  if (left == "auto" && slash == std::string::npos) return shard_of_cluster(variables, 0);
  if (left.empty() || slash == std::string::npos || slash + 1 == given.size()) {
    throw UsageError(where, "\"" + given + "\" is not a shard", "write I/N (from 1/N to N/N), auto or auto/N");
  }
  const std::uint64_t count = cli::parse_count(given.substr(slash + 1), where, 1, kMaxShards);
  if (left == "auto") return shard_of_cluster(variables, count);
  return {.index = cli::parse_count(left, where, 1, count) - 1, .count = count};
}

std::string name_of(const Shard& shard) {
  return text(shard.index + 1, "-of-", shard.count);
}

std::string file_of_shard(const std::string& path, const Shard& shard) {
  if (shard.count == 1 || path == "-" || path.starts_with("/dev/")) return path;
  const std::filesystem::path given = path;
  const std::string name = text(given.stem().string(), '.', name_of(shard), given.extension().string());
  return (given.parent_path() / name).string();
}

std::vector<std::size_t> jobs_of_shard(const JobList& list, const Shard& shard) {
  std::vector<std::size_t> mine;
  if (!list.has_costs) {
    for (std::size_t j = shard.index; j < list.jobs.size(); j += shard.count) mine.push_back(j);
    return mine;
  }
  using Load = std::pair<std::uint64_t, std::uint64_t>;  // cost so far, shard
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  for (std::uint64_t s = 0; s < shard.count; ++s) loads.emplace(0, s);
  for (const std::size_t j : dearest_first(list.jobs)) {
    const auto [load, s] = loads.top();
    loads.pop();
    loads.emplace(load + list.jobs[j].cost_micro, s);
    if (s == shard.index) mine.push_back(j);
  }
  std::sort(mine.begin(), mine.end());
  return mine;
}

}  // namespace spmm::batch
