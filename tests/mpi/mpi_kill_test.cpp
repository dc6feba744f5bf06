// kill -9 of a random rank at a random moment of a product: the old output or the complete new one, and at most one
// temporary name, which the next run removes. SPMM_TEST_KILLS sets how many kills of each kind (2 by default).
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>

#include "mpi/mpi_place.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"

namespace {

using namespace spmm::test;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;
using Words = std::vector<std::string>;
namespace fs = std::filesystem;

constexpr int kRanks = 3;
constexpr int kSigkillCode = 128 + SIGKILL;  // what mpirun says of a rank that was killed

int num_kills() {
  const char* const wish = std::getenv("SPMM_TEST_KILLS");
  return wish == nullptr ? 2 : std::atoi(wish);
}

bool has_open(int pid, const std::string& name) {
  std::error_code none;
  for (fs::directory_iterator at("/proc/" + std::to_string(pid) + "/fd", none), end; !none && at != end;
       at.increment(none)) {
    std::error_code gone;
    if (fs::read_symlink(at->path(), gone).filename() == name) return true;
  }
  return false;
}

/// Its end can still be waited for.
bool has_ended(const Process& run) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(run.pid()), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
}

/// Waits until a rank reads an operand: all have met then. Open MPI's launcher may hang for ever when a rank dies
/// earlier. Returns the ranks, none where the run is over.
std::vector<int> wait_for_readers(const Process& run, const std::string& out) {
  while (!has_ended(run)) {
    const std::vector<int> ranks = ranks_running(out);
    for (const int pid : ranks) {
      if (ranks.size() == kRanks && (has_open(pid, "x.bin") || has_open(pid, "y.bin"))) return ranks;
    }
  }
  return {};
}

ProcessOptions patient() {
  ProcessOptions options;
  options.timeout = kPatience;
  return options;
}

/// From the first read to the end of a run that is left alone.
Seconds length_of(const Words& words) {
  Process run(mpi_words(kRanks, words), patient());
  wait_for_readers(run, words.back());
  const auto start = Clock::now();
  REQUIRE(run.wait().exit_code == 0);
  return Clock::now() - start;
}

void kill_ranks(const Words& options, const std::string& out) {
  Words words = {"-q", "--backend", "cpu"};
  words.insert(words.end(), options.begin(), options.end());
  Words old = words;
  old.insert(old.end(), {"y.bin", "x.bin", out});
  words.insert(words.end(), {"x.bin", "y.bin", out});
  Seconds length = length_of(words);
  const std::string complete = bytes_of(out);
  REQUIRE(run_ranks(1, old).exit_code == 0);
  const std::string before = bytes_of(out);
  const Words known = {"x.bin", "y.bin", "expected.bin", out};
  std::mt19937 random(17);
  int killed = 0;
  for (int kill = 0; kill < num_kills(); ++kill) {
    Process run(mpi_words(kRanks, words), patient());
    const std::vector<int> ranks = wait_for_readers(run, out);
    std::this_thread::sleep_for(length * std::uniform_real_distribution<double>(0, 1)(random));
    if (!ranks.empty()) ::kill(ranks[random() % ranks.size()], SIGKILL);
    const ProcessResult result = run.wait();
    INFO("kill " << kill << ": exit code " << result.exit_code << "\n" << result.err);
    CHECK_FALSE(result.timed_out);
    CHECK((result.exit_code == 0 || result.exit_code == kSigkillCode));
    const std::string found = bytes_of(out);
    CHECK((found == complete || (result.exit_code != 0 && found == before)));
    const Words left = names_in(".", known);
    CAPTURE(left);
    CHECK((result.exit_code == 0 ? left.empty() : left.size() <= 1));
    killed += result.exit_code == 0 ? 0 : 1;
    if (result.exit_code == 0) length *= 0.8;
    if (found == complete) REQUIRE(run_ranks(1, old).exit_code == 0);
  }
  if (num_kills() > 2) WARN(out << ": " << killed << " of " << num_kills() << " runs were killed");
  REQUIRE(run_ranks(kRanks, words).exit_code == 0);
  CHECK((bytes_of(out) == complete));
  CHECK(names_in(".", known).empty());
}

}  // namespace

TEST_CASE("kill -9 of random ranks at random moments of a product", "[slow]") {
  const MpiPlace place;
  place.set_operands(random_matrix(4096, 8, 6000, 65535, 31), random_matrix(4096, 8, 6000, 65535, 32));
  kill_ranks({}, "z.bin");
}
