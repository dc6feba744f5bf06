// A signal at any moment leaves the old output or the complete new one, and nothing else.
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "cli/exit_codes.hpp"
#include "cli/workplace.hpp"
#include "spmm/io.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"

namespace {

using namespace spmm::test;
using namespace spmm::cli;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;
using Words = std::vector<std::string>;

#if defined(__SANITIZE_ADDRESS__)
constexpr std::uint32_t kNumBlocks = 4000;  // everything takes ten times as long
#else
constexpr std::uint32_t kNumBlocks = 12000;
#endif

/// Sends a signal after random shares of a run's length, which is learnt on the way: other work on the machine comes
/// and goes. Returns how many runs were interrupted.
int interrupt(int times, int number, const Words& arguments, Seconds length, const std::string& complete) {
  std::mt19937 random(static_cast<unsigned>(times + number));
  const Words names = names_in(".");
  int interrupted = 0;
  for (int t = 0; t < times; ++t) {
    write_bytes("old.bin", kOldContent);
    Process process(spmm_words(arguments));
    process.wait_until_handled(number);
    std::this_thread::sleep_for(length * std::uniform_real_distribution<double>(0, 1)(random));
    process.send_signal(number);
    const ProcessResult result = process.wait();
    INFO("run " << t << ": exit code " << result.exit_code << ", signal " << result.signal << "\n" << result.err);
    const bool stopped = result.exit_code == kInterrupted;
    CHECK((stopped || result.exit_code == kOk));
    CHECK((bytes_of("old.bin") == (stopped ? std::string(kOldContent) : complete)));
    CHECK(names_in(".") == names);
    if (stopped) CHECK(result.err.find("safe to run") != std::string::npos);
    interrupted += stopped ? 1 : 0;
    if (!stopped) length *= 0.8;
  }
  return interrupted;
}

}  // namespace

TEST_CASE("SIGTERM and SIGINT at 50 random moments") {
  const Workplace workplace;
  spmm::write_matrix("x.bin", random_matrix(4096, 8, kNumBlocks, 65535, 31));
  spmm::write_matrix("y.bin", random_matrix(4096, 8, kNumBlocks, 65535, 32));
  struct Case {
    int times;
    int number;
    Words arguments;
  };
  const std::vector<Case> table = {
      {20, SIGTERM, {"--backend", "cpu", "--threads", "2", "x.bin", "y.bin", "old.bin"}},
      {20, SIGTERM, {"--kernel", "reference", "--progress", "always", "x.bin", "y.bin", "old.bin"}},
      {10, SIGINT, {"--backend", "cpu", "--verify", "50", "--durable", "x.bin", "y.bin", "old.bin"}},
  };
  int interrupted = 0;
  for (const Case& c : table) {
    const auto start = Clock::now();
    REQUIRE(spmm_command(c.arguments).exit_code == kOk);
    const Seconds length = Clock::now() - start;
    interrupted += interrupt(c.times, c.number, c.arguments, length, bytes_of("old.bin"));
  }
  CHECK(interrupted >= 1);
}
