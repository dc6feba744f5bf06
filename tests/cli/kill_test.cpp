// kill -9 at random moments of a product leaves the old output or the complete new one, and at most one temporary name.
// SPMM_TEST_KILLS sets how many kills of each kind (10 by default).
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>
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
namespace fs = std::filesystem;

int num_kills() {
  const char* const wish = std::getenv("SPMM_TEST_KILLS");
  return wish == nullptr ? 10 : std::atoi(wish);
}

Words hidden_names() {
  Words hidden;
  for (const std::string& name : names_in(".")) {
    if (name.front() == '.') hidden.push_back(name);
  }
  return hidden;
}

/// Products over an old output that are killed; those that were over before count too.
void kill_products(const Words& options, const std::string& out) {
  Words words = {"-q", "--backend", "cpu", "--threads", "2"};
  words.insert(words.end(), options.begin(), options.end());
  Words old = words;
  old.insert(old.end(), {"a.bin", "b.bin", out});
  words.insert(words.end(), {"x.bin", "y.bin", out});
  auto start = Clock::now();
  REQUIRE(spmm_command(words).exit_code == kOk);
  Seconds length = Clock::now() - start;
  const std::string complete = bytes_of(out);
  REQUIRE(spmm_command(old).exit_code == kOk);
  const std::string before = bytes_of(out);
  const std::size_t num_names = names_in(".").size();
  std::mt19937 random(11);
  int killed = 0;
  for (int kill = 0; kill < num_kills(); ++kill) {
    Process process(spmm_words(words));
    std::this_thread::sleep_for(length * std::uniform_real_distribution<double>(0, 1)(random));
    process.send_signal(SIGKILL);
    const ProcessResult result = process.wait();
    INFO("kill " << kill << ": signal " << result.signal << ", exit code " << result.exit_code << result.err);
    const bool was_killed = result.signal == SIGKILL;
    CHECK((was_killed || result.exit_code == kOk));
    const std::string found = bytes_of(out);
    CHECK((found == complete || (was_killed && found == before)));
    // A name of its own has only what was about to be renamed.
    const Words hidden = hidden_names();
    CHECK(hidden.size() <= 1);
    CHECK(names_in(".").size() == num_names + hidden.size());
    for (const std::string& name : hidden) {
      CHECK(name.starts_with("." + out + ".spmm-"));
      fs::remove(name);
    }
    killed += was_killed ? 1 : 0;
    if (!was_killed) length *= 0.8;
    if (found == complete) REQUIRE(spmm_command(old).exit_code == kOk);
  }
  if (num_kills() > 10) WARN(out << ": " << killed << " of " << num_kills() << " runs were killed");
  REQUIRE(spmm_command(words).exit_code == kOk);
  CHECK((bytes_of(out) == complete));
  CHECK(names_in(".").size() == num_names);
}

}  // namespace

TEST_CASE("kill -9 at random moments of a product") {
  const Workplace workplace;
  spmm::write_matrix("x.bin", random_matrix(4096, 8, 6000, 65535, 31));
  spmm::write_matrix("y.bin", random_matrix(4096, 8, 6000, 65535, 32));
  kill_products({}, "c.bin");
  kill_products({"--kernel", "reference", "--memory-limit", "3M"}, "c.bin");
}
