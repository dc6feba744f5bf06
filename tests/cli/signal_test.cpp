// SIGTERM, SIGINT and SIGKILL at random moments leave the old output or the complete new one, and after SIGKILL at most
// one temporary name. SPMM_TEST_KILLS sets how many SIGKILL of each kind (10 by default).
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>

#include "cli/exit_codes.hpp"
#include "cli/workplace.hpp"
#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "support/matrices.hpp"

namespace {

using namespace spmm::test;
using namespace spmm::cli;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;
using Words = std::vector<std::string>;
namespace fs = std::filesystem;

#if defined(__SANITIZE_ADDRESS__)
constexpr std::uint32_t kNumBlocks = 4000;  // everything takes ten times as long
#else
constexpr std::uint32_t kNumBlocks = 12000;
#endif

/// Runs x.bin times y.bin over an old output, and sends a signal after random shares of the length of a run, which is
/// learnt on the way: other work on the machine comes and goes. Returns how many runs were stopped.
int interrupt(int times, int number, Words words) {
  words.insert(words.end(), {"x.bin", "y.bin", "old.bin"});
  const auto start = Clock::now();
  REQUIRE(spmm_command(words).exit_code == kOk);
  Seconds length = Clock::now() - start;
  const std::string complete = bytes_of("old.bin");
  const Words names = names_in(".");
  std::mt19937 random(static_cast<unsigned>(times + number));
  int num_stopped = 0;
  for (int t = 0; t < times; ++t) {
    write_bytes("old.bin", kOldContent);
    Process process(spmm_words(words));
    if (number != SIGKILL) process.wait_until_handled(number);
    std::this_thread::sleep_for(length * std::uniform_real_distribution<double>(0, 1)(random));
    process.send_signal(number);
    const ProcessResult result = process.wait();
    INFO("run " << t << ": exit code " << result.exit_code << ", signal " << result.signal << "\n" << result.err);
    const bool killed = result.signal == SIGKILL;
    const bool stopped = killed || result.exit_code == kInterrupted;
    CHECK((stopped || result.exit_code == kOk));
    const std::string found = bytes_of("old.bin");
    CHECK((found == (stopped ? std::string(kOldContent) : complete) || (killed && found == complete)));
    if (stopped && !killed) CHECK(has(result.err, "safe to run"));
    int num_hidden = 0;
    for (const std::string& name : names_in(".")) {
      if (!killed || !name.starts_with(".old.bin.spmm-")) continue;
      ++num_hidden;
      fs::remove(name);
    }
    CHECK(num_hidden <= 1);
    CHECK(names_in(".") == names);
    num_stopped += stopped ? 1 : 0;
    if (!stopped) length *= 0.8;
  }
  return num_stopped;
}

void write_operands(std::uint32_t num_blocks) {
  spmm::write_matrix("x.bin", random_matrix(4096, 8, num_blocks, 65535, 31));
  spmm::write_matrix("y.bin", random_matrix(4096, 8, num_blocks, 65535, 32));
}

}  // namespace

TEST_CASE("SIGTERM and SIGINT at 50 random moments") {
  const Workplace workplace;
  write_operands(kNumBlocks);
  int stopped = interrupt(20, SIGTERM, {"--backend", "cpu", "--threads", "2"});
  stopped += interrupt(20, SIGTERM, {"--kernel", "reference", "--progress", "always"});
  stopped += interrupt(10, SIGINT, {"--backend", "cpu", "--verify", "50", "--durable"});
  CHECK(stopped >= 1);
}

TEST_CASE("kill -9 at random moments of a product") {
  const char* const wish = std::getenv("SPMM_TEST_KILLS");
  const int times = wish == nullptr ? 10 : std::atoi(wish);
  const Workplace workplace;
  write_operands(kNumBlocks / 2);
  interrupt(times, SIGKILL, {"-q", "--backend", "cpu", "--threads", "2"});
  interrupt(times, SIGKILL, {"-q", "--threads", "2", "--kernel", "reference", "--memory-limit", "3M"});
}
