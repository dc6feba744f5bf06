// The Slurm template with a stand-in for scontrol: shards of an array, a signal, requeue, and the same bytes in the
// end.
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "cli/batch/batch_place.hpp"
#include "support/catch.hpp"
#include "test_paths.hpp"

namespace {

using namespace spmm::test;
namespace fs = std::filesystem;
using Variables = std::vector<std::pair<std::string, std::string>>;

/// Task `id` of an array of two.
ProcessOptions task_options(int id, const Variables& more = {}) {
  ProcessOptions options{.env = {{"SLURM_JOB_ID", std::to_string(100 + id)},
                                 {"SLURM_ARRAY_TASK_ID", std::to_string(id)},
                                 {"SLURM_ARRAY_TASK_MIN", "0"},
                                 {"SLURM_ARRAY_TASK_MAX", "1"},
                                 {"SLURM_ARRAY_TASK_COUNT", "2"},
                                 {"SPMM_BATCH", SPMM_BIN_DIR "/spmm-batch"},
                                 {"PATH", fs::current_path().string() + "/bin:/usr/bin:/bin"}},
                         .folder = {}};
  options.env.insert(options.env.end(), more.begin(), more.end());
  return options;
}

const std::vector<std::string> kWords = {"/bin/bash", SPMM_SOURCE_DIR "/tools/cluster/spmm-batch.sbatch", "jobs.tsv"};

void put_scontrol() {
  fs::create_directory("bin");
  write_bytes("bin/scontrol", "#!/bin/sh\necho \"$@\" >> requeued\n");
  ::chmod("bin/scontrol", 0755);
}

}  // namespace

TEST_CASE("tasks of the Slurm template run their shards") {
  BatchPlace place;
  place.write_list();
  put_scontrol();
  CHECK(run_process(kWords, task_options(0)).exit_code == 0);
  CHECK(place.wrong_outputs().size() == 8);
  CHECK(run_process(kWords, task_options(1)).exit_code == 0);
  CHECK(place.wrong_outputs().empty());
  CHECK_FALSE(fs::exists("requeued"));
}

TEST_CASE("a signalled task of the Slurm template goes back to the queue and goes on") {
  for (const int number : {SIGUSR1, SIGTERM}) {
    BatchPlace place;
    place.write_list();
    put_scontrol();
    // Every job takes a second: the task cannot be through before the signal comes.
    Process task(kWords, task_options(0, {{"SPMM_BATCH", SPMM_FAULTY_BIN_DIR "/spmm-batch"},
                                          {"SPMM_BATCH_FAULT", "slow:"},
                                          {"SPMM_THREADS", "2"}}));
    const auto supervisor = [&] {
      const auto children = children_of(task.pid());
      return children.empty() ? 0 : children.front();
    };
    while (supervisor() == 0 || children_of(supervisor()).empty()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    task.send_signal(number);
    const ProcessResult result = task.wait();
    INFO(result.out << result.err);
    CHECK(result.exit_code == 75);
    CHECK(bytes_of("requeued") == "requeue 100\n");
    CHECK(place.wrong_outputs().size() > 8);
    CHECK(run_process(kWords, task_options(0)).exit_code == 0);
    CHECK(run_process(kWords, task_options(1)).exit_code == 0);
    CHECK(place.wrong_outputs().empty());
  }
}

TEST_CASE("the PBS template reads as a script and names its shard") {
  BatchPlace place;
  place.write_list();
  ProcessOptions options{.env = {{"PBS_ARRAY_INDEX", "2"},
                                 {"PBS_JOBID", "7"},
                                 {"PBS_O_WORKDIR", fs::current_path().string()},
                                 {"JOBS", "jobs.tsv"},
                                 {"TASKS", "4"},
                                 {"SPMM_BATCH", SPMM_BIN_DIR "/spmm-batch"}},
                         .folder = {}};
  CHECK(run_process({"/bin/bash", SPMM_SOURCE_DIR "/tools/cluster/spmm-batch.pbs"}, options).exit_code == 0);
  CHECK(place.wrong_outputs().size() == 12);
}

TEST_CASE("the loop of the cluster's page makes a list that --dry-run accepts") {
  BatchPlace place(3);
  fs::create_directory("a");
  fs::rename("1.bin", "a/1.bin");
  fs::rename("2.bin", "a/two words.bin");
  fs::rename("3.bin", "b.bin");
  const std::string page = bytes_of(SPMM_SOURCE_DIR "/tools/cluster/README.md");
  const std::size_t begin = page.find("mkdir -p out\n");
  const std::string end = "done > jobs.tsv\n";
  const std::size_t last = page.find(end, begin);
  REQUIRE(last != std::string::npos);
  REQUIRE(run_process({"/bin/bash", "-c", page.substr(begin, last + end.size() - begin)}).exit_code == 0);
  const ProcessResult dry = run_batch({"--dry-run", "jobs.tsv"});
  INFO(dry.err);
  CHECK(dry.exit_code == 0);
  CHECK(std::count(dry.out.begin(), dry.out.end(), '\n') == 2);
  CHECK(run_batch({"jobs.tsv"}).exit_code == 0);
  CHECK(fs::exists("out/two words.bin"));
}
