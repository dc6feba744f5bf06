// A worker with several jobs at once, as those of GPUs have them: its death costs the others nothing but time.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "spmm/io.hpp"
#include "spmm/multiply.hpp"
#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "support/process.hpp"
#include "tools/batch/batch.hpp"

namespace {

using namespace spmm;
using namespace spmm::batch;
using spmm::test::TemporaryFolder;

std::vector<pid_t> children() {
  const std::string self = std::to_string(::getpid());
  std::ifstream list("/proc/self/task/" + self + "/children");
  return {std::istream_iterator<pid_t>(list), {}};
}

}  // namespace

TEST_CASE("several jobs at once in a worker that dies: each is run again, alone, and none is lost") {
  if (!test::kForksWithThreads) {
    WARN("not with this sanitizer or emulator");
    return;
  }
  const TemporaryFolder folder;
  write_matrix(folder.file("a"), test::random_matrix(1024, 4, 8000, 65535, 1));
  multiply(folder.file("a"), folder.file("a"), folder.file("c"));
  const auto expected = read_product(folder.file("c"));
  std::vector<Job> jobs;
  for (std::uint64_t j = 0; j < 24; ++j) {
    const std::string out = folder.file("c" + std::to_string(j));
    jobs.push_back({.line = j + 1, .a = folder.file("a"), .b = folder.file("a"), .out = out, .in_bytes = 1u << 20});
  }
  const std::vector<WorkerSetup> workers = {
      {.name = "gpu0", .visible_device = "none", .memory_limit_bytes = 1u << 30, .num_slots = 4},
      {.name = "cpu", .memory_limit_bytes = 1u << 30}};
  sigset_t before;
  ::sigprocmask(SIG_SETMASK, nullptr, &before);
  for (const int num_kills : {0, 2}) {
    BatchOptions options;
    options.quiet = true;
    std::vector<JobRun> runs(jobs.size());
    BatchOutput output(options, runs);
    std::atomic<bool> is_over = false;
    std::atomic<int> killed = 0;
    std::thread killer([&] {
      while (!is_over && killed < num_kills) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        const std::vector<pid_t> workers_now = children();
        if (!workers_now.empty() && ::kill(workers_now.front(), SIGKILL) == 0) ++killed;
      }
    });
    CHECK(supervise(jobs, runs, workers, options, nullptr, output) == 0);
    is_over = true;
    killer.join();
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      CHECK(runs[j].state == JobState::done);
      CHECK(runs[j].worker == "gpu0");
      CHECK(runs[j].attempts <= 1u + static_cast<unsigned>(killed));
      CHECK(read_product(jobs[j].out) == expected);
      std::filesystem::remove(jobs[j].out);
    }
    CHECK(children().empty());
  }
}
