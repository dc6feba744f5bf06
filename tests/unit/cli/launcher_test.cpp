// What programs say if a launcher has started several of them.
#include "cli/launcher.hpp"

#include <map>
#include <string>

#include "support/catch.hpp"
#include "support/files.hpp"

namespace {

using namespace spmm::cli;
using namespace spmm::test;
using Values = std::map<std::string, std::string>;

std::string said(const std::function<std::string(const Environment&)>& program, const Values& all) {
  return program([&](const char* name) -> const char* {
    const auto at = all.find(name);
    return at == all.end() ? nullptr : at->second.c_str();
  });
}

std::string complaint(int size, const Values& all) {
  return said([&](const auto& environment) { return launcher_complaint(size, environment); }, all);
}

}  // namespace

TEST_CASE("a lone rank among several tasks is refused; the innermost launcher counts") {
  CHECK(complaint(1, {}).empty());
  CHECK(complaint(4, {{"SLURM_NTASKS", "8"}}).empty());
  CHECK(has(complaint(1, {{"SLURM_NTASKS", "8"}}), "SLURM_NTASKS"));
  CHECK(complaint(1, {{"OMPI_COMM_WORLD_SIZE", "1"}, {"SLURM_NTASKS", "8"}}).empty());
  CHECK(complaint(1, {{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_NTASKS", "8"}}).empty());
  CHECK_FALSE(complaint(1, {{"PMI_SIZE", "3"}}).empty());
}

TEST_CASE("of several processes that each run a product the first one says so") {
  const auto warning = [](const Values& all) {
    return said([](const auto& environment) { return lone_process_warning(environment); }, all);
  };
  CHECK(warning({}).empty());
  CHECK(has(warning({{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "0"}}), "OMPI_COMM_WORLD_SIZE says 2"));
  CHECK(warning({{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "1"}}).empty());
  CHECK(warning({{"OMPI_COMM_WORLD_SIZE", "1"}, {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_PROCID", "0"}}).empty());
  CHECK(has(warning({{"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_PROCID", "0"}}), "SLURM_STEP_NUM_TASKS says 8"));
  CHECK(has(warning({{"PMI_SIZE", "3"}, {"PMI_RANK", "0"}}), "PMI_SIZE says 3"));
  CHECK(warning({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}).empty());  // a batch script
}
