// The small parts: packets, GPUs, workers, checks of files, the log, progress line.
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "base/visible_gpus.hpp"
#include "io/files/output_file.hpp"
#include "spmm/error.hpp"
#include "support/catch.hpp"
#include "support/process.hpp"
#include "tools/batch/batch.hpp"

namespace {

using namespace spmm;
using namespace spmm::batch;
using spmm::test::TemporaryFolder;
namespace fs = std::filesystem;
using Names = std::vector<std::string>;

void touch(const fs::path& path) {
  std::ofstream(path) << "x";
}

}  // namespace

TEST_CASE("results go from process to process") {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends.data()) == 0);
  bool is_closed = true;
  CHECK_FALSE(receive_result(ends[1], is_closed));
  CHECK_FALSE(is_closed);
  JobResult result;
  result.job = 7;
  result.exit_code = 65;
  result.out = {.size = 12, .mtime_ns = -3, .is_regular = true};
  result.kernel = "row-merge";
  result.message = std::string(1'000'000, 'm');
  CHECK(send_result(ends[0], result));
  const auto back = receive_result(ends[1], is_closed);
  REQUIRE(back);
  CHECK(back->job == 7);
  CHECK(back->exit_code == 65);
  CHECK(back->out.mtime_ns == -3);
  CHECK(back->kernel == "row-merge");
  CHECK(back->message.size() > 1000);  // cut: it still is one packet
  ::close(ends[0]);
  CHECK_FALSE(receive_result(ends[1], is_closed));
  CHECK(is_closed);
  CHECK_FALSE(send_result(ends[1], result));
  ::close(ends[1]);
}

TEST_CASE("workers and what each has") {
  struct Case {
    Names gpus;
    std::vector<std::uint64_t> bytes;  // of the jobs' operands
    unsigned cores, in_flight;
    std::size_t num_workers;
    unsigned threads, slots;
    std::uint64_t memory;
  };
  // The last worker of each is one of the cores.
  const std::vector<Case> table = {
      {{}, {1, 1, 1, 1, 1}, 2, 0, 2, 1, 1, 500},
      {{}, {1, 1}, 8, 0, 2, 4, 1, 500},                // fewer jobs than cores
      {{}, {1, 100, 1, 1, 1, 1}, 4, 0, 2, 2, 1, 500},  // large operands
      {{}, {900, 900}, 4, 0, 1, 4, 1, 1000},
      {{}, {1, 1, 1, 1}, 4, 1, 1, 4, 1, 1000},
      {{}, {1, 1, 1, 1}, 2, 4, 4, 1, 1, 250},
      {{"0"}, {1, 1, 1, 1}, 4, 0, 3, 1, 1, 250},              // two cores feed the GPU
      {{"0", "1"}, {1 << 20, 1 << 20}, 8, 0, 3, 4, 1, 1000},  // jobs for GPUs alone
  };
  for (const Case& c : table) {
    std::vector<Job> jobs;
    for (const std::uint64_t bytes : c.bytes) jobs.push_back({.in_bytes = bytes});
    const auto workers = plan_workers(jobs, c.gpus, c.cores, 1000, c.in_flight);
    INFO(c.gpus.size() << " GPUs, " << c.bytes.size() << " jobs, " << c.cores << " cores, in flight " << c.in_flight);
    REQUIRE(workers.size() == c.num_workers);
    CHECK(workers.back().num_threads == c.threads);
    CHECK(workers.back().num_slots == c.slots);
    CHECK(workers.back().memory_limit_bytes == c.memory);
    for (std::size_t g = 0; g < c.gpus.size(); ++g) {
      CHECK(workers[g].visible_device == c.gpus[g]);
      CHECK(workers[g].num_slots == 4);
    }
  }
}

TEST_CASE("GPUs are found by files of the driver") {
  const TemporaryFolder folder;
  const fs::path driver = folder.path() / "proc/driver/nvidia/gpus";
  const fs::path devices = folder.path() / "dev";
  const auto found = [&](const char* visible) { return visible_gpus(visible, folder.path()); };
  CHECK(found(nullptr).empty());
  CHECK_FALSE(has_gpu_driver(folder.path()));
  fs::create_directories(devices);
  for (const char* gpu : {"0000:01:00.0", "0000:02:00.0", "0000:03:00.0"}) fs::create_directories(driver / gpu);
  CHECK(found(nullptr).empty());
  CHECK(has_gpu_driver(folder.path()));
  for (const char* file : {"nvidia0", "nvidia1", "nvidia2", "nvidiactl", "nvidia-uvm"}) touch(devices / file);
  CHECK(found(nullptr) == Names{"0", "1", "2"});
  CHECK(found("") == Names{});
  CHECK(found("-1") == Names{});
  CHECK(found("2, 0") == Names{"2", "0"});
  CHECK(found("1,7,0") == Names{"1"});  // as CUDA: nothing after an invalid entry
  CHECK(found("GPU-8f2b,MIG-77") == Names{"GPU-8f2b", "MIG-77"});
}

TEST_CASE("GPUs are found where the driver lists none: containers, WSL2, Jetson") {
  struct Case {
    std::string library;
    std::vector<std::string> files;
    Names gpus;
  };
  const std::vector<Case> table = {
      {"usr/lib64", {"nvidia0", "nvidia1", "nvidiactl"}, {"0", "1"}},
      {"usr/lib/wsl/lib", {"dxg"}, {"0"}},
      {"usr/lib/aarch64-linux-gnu/tegra", {"nvhost-gpu", "nvhost-ctrl-gpu"}, {"0"}},
      {"usr/lib/aarch64-linux-gnu/nvidia", {"nvgpu/igpu0/ctrl"}, {"0"}},
      {"usr/lib", {"null"}, {}},
  };
  for (const Case& c : table) {
    const TemporaryFolder folder;
    for (const std::string& file : c.files) {
      const fs::path path = folder.path() / "dev" / file;
      fs::create_directories(path.parent_path());
      touch(path);
    }
    INFO(c.library);
    CHECK(visible_gpus(nullptr, folder.path()).empty());  // a device without a driver, as every WSL2 has it
    fs::create_directories(folder.path() / c.library);
    CHECK_FALSE(has_gpu_driver(folder.path()));
    touch(folder.path() / c.library / "libcuda.so.1");
    CHECK(has_gpu_driver(folder.path()));
    CHECK(visible_gpus(nullptr, folder.path()) == c.gpus);
    CHECK(visible_gpus("", folder.path()).empty());
    const bool tells_number = c.files.front() == "nvidia0";
    if (!c.gpus.empty()) CHECK(visible_gpus("1", folder.path()) == Names{"1"});
    CHECK(visible_gpus("17", folder.path()).empty());
    CHECK(visible_gpus("0,5", folder.path()).size() == (c.gpus.empty() ? 0 : tells_number ? 1 : 2));
  }
}

TEST_CASE("a job is done if the log has its line and its files are as they were") {
  const TemporaryFolder folder;
  const Job job{.a = folder.file("a"), .b = folder.file("b"), .out = folder.file("c")};
  for (const char* name : {"a", "b", "c"}) touch(folder.path() / name);
  const std::string path = folder.file("jobs.log");
  const auto line = [&] { return log_line(job, state_of(job.a), state_of(job.b), state_of(job.out)); };
  const auto done = [&](const Job& asked) { return is_done(read_logs(path), asked); };
  CHECK_FALSE(done(job));
  std::ofstream(path) << "garbage\n" << line().substr(0, line().size() - 5);  // torn
  CHECK_FALSE(done(job));
  Log(path).append(line());
  CHECK(done(job));
  Job other = job;
  other.product.durable = true;
  CHECK_FALSE(done(other));
  fs::last_write_time(job.b, fs::last_write_time(job.b) - std::chrono::seconds(5));
  CHECK_FALSE(done(job));
  Log(folder.file("jobs.2-of-3.log")).append(line());  // of a shard
  CHECK(done(job));
  fs::remove(job.out);
  CHECK_FALSE(done(job));
  const Log first(path);
  CHECK_THROWS_AS(Log(path), OutputError);  // in use
  CHECK_THROWS_AS(Log(folder.path().string()), OutputError);
  REQUIRE(::mkfifo(folder.file("pipe.log").c_str(), 0600) == 0);
  CHECK_THROWS_AS(Log(folder.file("pipe.log")), OutputError);
  CHECK(read_logs(folder.file("pipe.log")).empty());
  Log("/dev/null").append("kept nowhere");
}

TEST_CASE("the line of progress") {
  const JobCounts counts{.by_state = {88, 2, 9, 1, 0}, .bytes = 1'000'000'000};
  CHECK(batch_line(counts, 2) == "9/100 done, 1 failed, 2 running, 5 jobs/s, 500 MB/s, ETA 0:18");
  CHECK(batch_line({.by_state = {3}}, 0) == "0/3 done, 0 failed, 0 running");
}
