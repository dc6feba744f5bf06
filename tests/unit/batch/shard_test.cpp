// Shards: disjoint, complete, balanced, and found from the variables of a cluster.
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include "spmm/error.hpp"
#include "support/catch.hpp"
#include "tools/batch/list/shard.hpp"

namespace {

using namespace spmm;
using namespace spmm::batch;
using Values = std::map<std::string, std::string>;

Variables variables(const Values& values) {
  return [values](const std::string& name) {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional<std::string>(found->second);
  };
}

JobList list_of(std::size_t num_jobs, bool with_costs) {
  std::mt19937 random(5);
  std::string text;
  for (std::size_t j = 0; j < num_jobs; ++j) {
    text += "a\tb\tc" + std::to_string(j);
    if (with_costs && j % 7 != 0) text += "\tcost=" + std::to_string(random() % 1000 + 1);
    text += "\n";
  }
  return parse_job_list(text, {.name = "l", .folder = "/"}, {});
}

/// "INDEX/COUNT" from 0, or the message.
std::string found(const Values& values, const std::string& given = "auto") {
  try {
    const Shard shard = parse_shard(given, "--shard", variables(values));
    return std::to_string(shard.index) + "/" + std::to_string(shard.count);
  } catch (const UsageError& e) {
    return e.what();
  }
}

}  // namespace

TEST_CASE("shards are disjoint, complete and in list order") {
  for (const bool with_costs : {false, true}) {
    for (const std::size_t num_jobs : {0, 1, 5, 100}) {
      const JobList list = list_of(num_jobs, with_costs);
      for (const std::uint64_t count : {1, 2, 3, 7, 150}) {
        std::multiset<std::size_t> all;
        for (std::uint64_t s = 0; s < count; ++s) {
          const auto mine = jobs_of_shard(list, {.index = s, .count = count});
          CHECK(std::is_sorted(mine.begin(), mine.end()));
          all.insert(mine.begin(), mine.end());
        }
        std::multiset<std::size_t> expected;
        for (std::size_t j = 0; j < num_jobs; ++j) expected.insert(j);
        CHECK(all == expected);
      }
    }
  }
}

TEST_CASE("costs balance the shards") {
  const JobList list = list_of(200, true);
  REQUIRE(list.has_costs);
  std::vector<std::uint64_t> loads;
  std::uint64_t dearest = 0;
  for (const Job& job : list.jobs) dearest = std::max(dearest, job.cost_micro);
  for (std::uint64_t s = 0; s < 6; ++s) {
    std::uint64_t load = 0;
    for (const std::size_t j : jobs_of_shard(list, {.index = s, .count = 6})) load += list.jobs[j].cost_micro;
    loads.push_back(load);
  }
  const auto [least, most] = std::minmax_element(loads.begin(), loads.end());
  CHECK(*most - *least <= dearest);
  // A job as dear as all others together has its own shard.
  const JobList skewed = parse_job_list("a\tb\tc1\na\tb\tc2\tcost=4\na\tb\tc3\na\tb\tc4\na\tb\tc5\n", {"l", "/"}, {});
  CHECK(jobs_of_shard(skewed, {.index = 0, .count = 2}) == std::vector<std::size_t>{1});
  CHECK(jobs_of_shard(skewed, {.index = 1, .count = 2}) == std::vector<std::size_t>{0, 2, 3, 4});
}

TEST_CASE("--shard I/N") {
  CHECK(found({}, "1/1") == "0/1");
  CHECK(found({}, "3/8") == "2/8");
  for (const char* bad : {"", "3", "/", "1/", "/2", "0/2", "3/2", "a/2", "1/0", "1/2/3", "-1/2", "auto/", "auto/0"}) {
    INFO(bad);
    CHECK(found({}, bad).find("--shard: ") == 0);
  }
}

TEST_CASE("--shard auto reads the variables of clusters") {
  struct Case {
    Values values;
    std::string given;
    std::string shard;  // or a part of the message
  };
  const Values slurm_array = {{"SLURM_ARRAY_TASK_ID", "7"},    {"SLURM_ARRAY_TASK_MIN", "3"},
                              {"SLURM_ARRAY_TASK_MAX", "9"},   {"SLURM_ARRAY_TASK_STEP", "2"},
                              {"SLURM_ARRAY_TASK_COUNT", "4"}, {"SLURM_JOB_ID", "1"}};
  Values array_and_step = slurm_array;
  array_and_step.insert({{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "3"}});
  const std::vector<Case> table = {
      {slurm_array, "auto", "2/4"},
      {slurm_array, "auto/4", "2/4"},
      {slurm_array, "auto/5", "contradicts"},
      {array_and_step, "auto", "7/12"},
      {{{"SLURM_ARRAY_TASK_ID", "5"},
        {"SLURM_ARRAY_TASK_MIN", "1"},
        {"SLURM_ARRAY_TASK_MAX", "5"},
        {"SLURM_ARRAY_TASK_COUNT", "3"}},
       "auto",
       "gaps"},
      {{{"SLURM_ARRAY_TASK_ID", "x"}}, "auto", "not a whole number"},
      {{{"SLURM_JOB_ID", "1"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}, "auto", "0/1"},  // a batch script
      {{{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "4"}}, "auto", "3/4"},
      {{{"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "3"}}, "auto", "is not one of 3"},
      {{{"OMPI_COMM_WORLD_RANK", "1"},
        {"OMPI_COMM_WORLD_SIZE", "2"},
        {"SLURM_PROCID", "0"},
        {"SLURM_STEP_NUM_TASKS", "1"}},
       "auto",
       "1/2"},
      {{{"PMI_RANK", "5"}, {"PMI_SIZE", "6"}}, "auto", "5/6"},
      {{{"PBS_ARRAY_INDEX", "2"}}, "auto", "auto/N"},
      {{{"PBS_ARRAY_INDEX", "2"}}, "auto/8", "1/8"},
      {{{"PBS_ARRAY_INDEX", "0"}}, "auto/8", "does not fit"},
      {{{"PBS_ARRAY_INDEX", "9"}}, "auto/8", "is not one of 8"},
      {{{"LSB_JOBINDEX", "3"}, {"LSB_JOBINDEX_END", "10"}}, "auto", "2/10"},
      {{{"LSB_JOBINDEX", "3"}}, "auto/5", "2/5"},
      {{{"LSB_JOBINDEX", "0"}, {"LSB_JOBID", "8"}}, "auto", "0/1"},
      {{}, "auto", "no variable"},
      {{}, "auto/4", "outside an array"},
  };
  for (const Case& c : table) {
    const std::string answer = found(c.values, c.given);
    INFO(c.given << " with " << (c.values.empty() ? "nothing" : c.values.begin()->first) << ": " << answer);
    CHECK((answer == c.shard || (c.shard.find('/') == std::string::npos && answer.find(c.shard) != std::string::npos) ||
           (c.shard == "auto/N" && answer.find("auto/N") != std::string::npos)));
  }
}

TEST_CASE("each shard writes files of its own") {
  const Shard third{.index = 2, .count = 8};
  CHECK(file_of_shard("r.json", third) == "r.3-of-8.json");
  CHECK(file_of_shard("out.d/log", third) == "out.d/log.3-of-8");
  CHECK(file_of_shard("-", third) == "-");
  CHECK(file_of_shard("/dev/null", third) == "/dev/null");
  CHECK(file_of_shard("r.json", {}) == "r.json");
}
