// Many jobs in one run: memory, open files and threads of the supervisor and its workers stay what they were.
// SPMM_TEST_JOBS sets how many jobs.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "cli/batch/batch_place.hpp"
#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "support/matrices.hpp"

namespace {

using namespace spmm::test;
namespace fs = std::filesystem;

/// What a process holds, and the most memory it has held.
struct Sample {
  std::uint64_t resident_kb = 0, threads = 0, files = 0;
};

Sample sample_of(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  Sample sample;
  std::ifstream status(folder + "/status");
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    if (key == "VmHWM:") words >> sample.resident_kb;
    if (key == "Threads:") words >> sample.threads;
  }
  std::error_code gone;
  for (fs::directory_iterator at(folder + "/fd", gone), end; !gone && at != end; at.increment(gone)) ++sample.files;
  return sample;
}

std::size_t num_finished() {
  const std::string log = bytes_of("jobs.tsv.log");
  return static_cast<std::size_t>(std::count(log.begin(), log.end(), '\n'));
}

/// The largest values of each process in a part of the run.
using Peaks = std::map<pid_t, Sample>;

void raise(Sample& peak, const Sample& sample) {
  peak.resident_kb = std::max(peak.resident_kb, sample.resident_kb);
  peak.threads = std::max(peak.threads, sample.threads);
  peak.files = std::max(peak.files, sample.files);
}

std::size_t num_jobs() {
  const char* const wish = std::getenv("SPMM_TEST_JOBS");
  return wish == nullptr ? 800 : std::strtoul(wish, nullptr, 10);
}

}  // namespace

TEST_CASE("many jobs in one run: memory, files and threads stay flat") {
  const std::size_t jobs = num_jobs();
  BatchPlace place(0);
  for (int o = 1; o <= 9; ++o) {
    const auto seed = static_cast<std::uint64_t>(o);
    spmm::write_matrix(std::to_string(o) + ".bin", spmm::test::random_matrix(256, 4, 500, 65535, seed));
  }
  std::string list;
  for (std::size_t j = 0; j < jobs; ++j) {
    list += std::to_string(j % 9 + 1) + ".bin\t" + std::to_string(j / 9 % 9 + 1) + ".bin\tc" + std::to_string(j) + "\n";
  }
  write_bytes("jobs.tsv", list);
  Process process(batch_words({"jobs.tsv", "--backend", "cpu", "--report", "r.json"}),
                  {.env = {}, .folder = {}, .timeout = std::chrono::seconds(600)});
  const pid_t supervisor = process.pid();
  Peaks early;  // from a tenth to a third
  Peaks late;   // the last third
  for (std::size_t done = 0; done < jobs;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    done = num_finished();
    const bool is_early = done >= jobs / 10 && done < jobs / 3;
    const bool is_late = done >= jobs - jobs / 3 && done < jobs;
    std::vector<pid_t> processes = children_of(supervisor);
    if (processes.empty() && done == 0) continue;
    processes.push_back(supervisor);
    if (processes.size() < 2) break;
    for (const pid_t pid : processes) {
      if (is_early) raise(early[pid], sample_of(pid));
      if (is_late) raise(late[pid], sample_of(pid));
    }
  }
  CHECK(process.wait().exit_code == 0);
  CHECK(early.size() >= 2);  // the supervisor and a worker for each core
  CHECK(late.size() == early.size());
  for (const auto& [pid, before] : early) {
    const Sample& after = late[pid];
    INFO((pid == supervisor ? "supervisor" : "worker")
         << ": " << before.resident_kb << " -> " << after.resident_kb << " kB, " << before.threads << " -> "
         << after.threads << " threads, " << before.files << " -> " << after.files << " files");
    // Threads, files and buffers of up to 2 MB come and go with the jobs in flight, of which this process sees some:
    // what stayed behind of each of the hundreds of jobs between would be far more.
    CHECK(after.threads <= before.threads + 16);
    CHECK(after.files <= before.files + 100);
    CHECK(after.resident_kb <= before.resident_kb + (pid == supervisor ? 2048 : 16384));
  }
}
