// Signals at random moments: nothing is lost, nothing is left behind, --resume completes the list.
// SPMM_TEST_KILLS sets how many rounds (a quick run by default).
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "cli/batch/batch_place.hpp"
#include "support/catch.hpp"
#include "support/json_schema.hpp"

namespace {

using namespace spmm::test;
using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

int num_rounds(int otherwise = 3) {
  const char* const wish = std::getenv("SPMM_TEST_KILLS");
  return wish == nullptr ? otherwise : std::atoi(wish);
}

/// Enough work for signals to meet it: operands whose product takes a few milliseconds.
class KillPlace : public BatchPlace {
 public:
  KillPlace() : BatchPlace(4, 512, 3000) {
    num_jobs_ = write_list(3);
    const auto start = Clock::now();
    REQUIRE(run_batch({"jobs.tsv"}).exit_code == 0);
    length_ = Clock::now() - start;
    reset();
  }

  void reset() const {
    for (const std::string& name : names_in(".")) {
      if (name[0] == 'c' || name == "jobs.tsv.log") std::filesystem::remove_all(name);
    }
  }

  [[nodiscard]] std::size_t num_jobs() const { return num_jobs_; }
  [[nodiscard]] Seconds moment(std::mt19937& random) const {
    return length_ * std::uniform_real_distribution<double>(0.02, 0.9)(random);
  }

 private:
  std::size_t num_jobs_ = 0;
  Seconds length_{};
};

Json resumed(const KillPlace& place) {
  const ProcessResult result = run_batch({"jobs.tsv", "--resume", "--report", "-"});
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK(place.wrong_outputs().empty());
  CHECK(place.unexpected_files().empty());
  return parse_report("batch-report", result.out)["totals"];
}

/// Waits for the end of a process that is not our child; one that its new parent has not taken leave of counts too.
bool has_ended(pid_t pid) {
  for (int look = 0; look < 12'000; ++look) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string number;
    std::string name;
    char state = 'X';
    if (!(file >> number >> name >> state) || state == 'Z' || state == 'X') return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

/// Jobs that may be on their way through the workers.
std::size_t max_in_flight() {
  return std::max<std::size_t>(1, std::thread::hardware_concurrency());
}

std::size_t num_outputs() {
  std::size_t count = 0;
  for (const std::string& name : names_in(".")) count += name[0] == 'c' ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("kill -9 of the supervisor at random moments, then --resume") {
  const KillPlace place;
  std::mt19937 random(1);
  for (int round = 0; round < num_rounds(); ++round) {
    place.reset();
    Process process(batch_words({"jobs.tsv"}));
    std::this_thread::sleep_for(place.moment(random));
    const auto workers = children_of(process.pid());
    process.send_signal(SIGKILL);
    const ProcessResult result = process.wait();  // also waits for the workers, who hold its output
    CHECK((result.signal == SIGKILL || result.exit_code == 0));
    for (const pid_t worker : workers) CHECK(has_ended(worker));
    const std::size_t before = num_outputs();
    const Json totals = resumed(place);
    // Only what was in flight is repeated.
    const std::size_t done_before = totals["done_before"];
    INFO("round " << round << ": " << before << " outputs, " << done_before << " known as done");
    CHECK(done_before <= before);
    CHECK(done_before + max_in_flight() >= before);
  }
}

TEST_CASE("kill -9 of a worker at random moments: the run goes on without a loss") {
  const KillPlace place;
  std::mt19937 random(2);
  for (int round = 0; round < num_rounds(); ++round) {
    place.reset();
    Process process(batch_words({"jobs.tsv", "--quiet", "--report", "-"}));
    std::size_t kills = 0;
    for (int moment = 0; moment < 2; ++moment) {
      std::this_thread::sleep_for(place.moment(random) / 2);
      for (const pid_t worker : children_of(process.pid())) kills += ::kill(worker, SIGKILL) == 0 ? 1 : 0;
    }
    const ProcessResult result = process.wait();
    INFO("round " << round << "\n" << result.err);
    REQUIRE(result.exit_code == 0);
    const Json report = parse_report("batch-report", result.out);
    std::size_t attempts = 0;
    for (const Json& job : report["jobs"]) attempts += job["attempts"].get<std::size_t>();
    CHECK(attempts >= place.num_jobs());
    CHECK(attempts <= place.num_jobs() + kills);
    CHECK(place.wrong_outputs().empty());
    CHECK(place.unexpected_files().empty());
    CHECK(resumed(place)["done_before"] == place.num_jobs());
  }
}

TEST_CASE("SIGTERM, SIGINT and SIGUSR1: exit code 75, and --resume goes on where it stopped") {
  const KillPlace place;
  std::mt19937 random(3);
  for (const int number : {SIGTERM, SIGINT, SIGUSR1}) {
    // A run may be over before its signal: then the next one gets its signal earlier.
    bool was_stopped = false;
    for (int round = 0; round < num_rounds(1) || (!was_stopped && round < 30); ++round) {
      place.reset();
      Process process(batch_words({"jobs.tsv", "--grace", round % 2 == 0 ? "20" : "0"}));
      while (children_of(process.pid()).empty()) std::this_thread::sleep_for(std::chrono::microseconds(200));
      std::this_thread::sleep_for(place.moment(random) / (was_stopped ? 2 : 2 << std::min(round, 20)));
      process.send_signal(number);
      const ProcessResult result = process.wait();
      INFO("signal " << number << ", round " << round << "\n" << result.err);
      CHECK((result.exit_code == 75 || result.exit_code == 0));
      was_stopped = was_stopped || result.exit_code == 75;
      CHECK(place.unexpected_files().empty());
      const std::size_t before = num_outputs();
      CHECK(resumed(place)["done_before"] == before);  // the log is complete
    }
    CHECK(was_stopped);
  }
}

TEST_CASE("a stopped worker's job times out and the worker is replaced") {
  BatchPlace place;
  place.write_list();
  std::string list = bytes_of("jobs.tsv");
  list.insert(list.find("c11-0.bin") + 9, "\ttimeout=0.5");  // others may take their time on a busy machine
  write_bytes("jobs.tsv", list);
  Process process(faulty_batch_words({"jobs.tsv"}), with_fault("slow:c11"));
  while (children_of(process.pid()).empty()) std::this_thread::sleep_for(std::chrono::microseconds(200));
  ::kill(children_of(process.pid()).front(), SIGSTOP);  // that has the first job
  const ProcessResult result = process.wait();
  INFO(result.err);
  CHECK(result.exit_code == 1);  // the slow one fails, with its worker and alone
  CHECK(place.wrong_outputs() == std::vector<std::string>{"c11-0.bin"});
}

TEST_CASE("running jobs have their grace, a second signal takes it away") {
  BatchPlace place;
  place.write_list();
  for (const bool twice : {false, true}) {
    // Every job takes a second, or never ends.
    Process process(faulty_batch_words({"jobs.tsv", "--grace", "300", "--log", "/dev/null", "--report", "r.json"}),
                    with_fault(twice ? "hang:" : "slow:"));
    while (children_of(process.pid()).empty()) std::this_thread::sleep_for(std::chrono::microseconds(200));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    process.send_signal(SIGTERM);
    // Those that reach the supervisor within 0.3 s count as one.
    for (int more = 0; twice && more < 5; ++more) {
      std::this_thread::sleep_for(std::chrono::milliseconds(400));
      process.send_signal(SIGTERM);
    }
    CHECK(process.wait().exit_code == 75);
    const Json totals = parse_report("batch-report", bytes_of("r.json"))["totals"];
    CHECK(totals["failed"] == 0);
    CHECK((totals["done"] > 0) == !twice);
    CHECK(totals["not_run"] > 0);
  }
}
