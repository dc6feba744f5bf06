// What goes wrong on one rank ends all of them, with one message and the documented code.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <random>
#include <thread>

#include "cli/exit_codes.hpp"
#include "mpi/mpi_place.hpp"
#include "spmm/io.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "test_paths.hpp"

namespace {

using namespace spmm::test;
using namespace spmm::cli;
using Clock = std::chrono::steady_clock;

constexpr const char* kTemporary = ".z.bin.spmm-mpi.tmp";
constexpr auto kPatience = std::chrono::seconds(120);  // against hangs, also on a busy machine

/// Operands, and an old output in their way.
void prepare(const MpiPlace& place, std::uint32_t n, std::uint32_t k) {
  place.set_operands(random_matrix(n, 4, k, 65535, 61), random_matrix(n, 4, k, 65535, 62));
  put_content("z.bin", kOld);
}

/// Runs a product that must fail, and end by itself: code, one message with these words, the old output, nothing else
/// left. Returns the message.
std::string check_failure(int num_ranks, const std::vector<std::string>& arguments, int code, const std::string& words,
                          const Variables& variables = {}) {
  const std::vector<std::string> before = other_names({});
  const ProcessResult result = run_ranks(num_ranks, arguments, variables);
  INFO(result.err);
  CHECK_FALSE(result.timed_out);
  CHECK(result.exit_code == code);
  const std::vector<std::string> messages = own_messages(result.err);
  REQUIRE(messages.size() == 1);
  CHECK(messages.front().find(words) != std::string::npos);
  CHECK(messages.front().find("[rank ") != std::string::npos);
  CHECK(content_of("z.bin") == kOld);
  CHECK(other_names({}) == before);
  return messages.front();
}

/// A file with one record changed to lie at (i, j).
void move_record(const std::string& path, std::uint64_t record, std::uint32_t i, std::uint32_t j) {
  std::string bytes = content_of(path);
  const std::uint64_t at = 12 + record * 40;
  bytes.replace(at, 4, reinterpret_cast<const char*>(&i), 4);
  bytes.replace(at + 4, 4, reinterpret_cast<const char*>(&j), 4);
  put_content(path, bytes);
}

/// Until a run has its temporary file, locked: its first bytes come after that.
void wait_until_locked() {
  const auto start = Clock::now();
  struct stat info {};
  while ((::stat(kTemporary, &info) != 0 || info.st_size == 0) && content_of("z.bin") == kOld &&
         Clock::now() - start < kPatience) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void wait_until_gone() {
  const auto start = Clock::now();
  while (!ranks_running("z.bin").empty() && Clock::now() - start < kPatience) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  CHECK(ranks_running("z.bin").empty());
}

/// Starts runs until one is stopped (SIGSTOP) while it works: a busy machine may let one end before. Null if none was.
std::unique_ptr<Process> stopped_run(const std::vector<std::string>& words, std::vector<int>& ranks) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    put_content("z.bin", kOld);
    auto run = std::make_unique<Process>(mpi_words(2, words), ProcessOptions{});
    wait_until_locked();
    ranks = ranks_running("z.bin");
    for (const int pid : ranks) ::kill(pid, SIGSTOP);
    if (ranks.size() == 2 && content_of("z.bin") == kOld && std::filesystem::exists(kTemporary)) return run;
    for (const int pid : ranks) ::kill(pid, SIGCONT);
    run->wait();
  }
  return nullptr;
}

}  // namespace

TEST_CASE("a disk that fails on one rank, at any of its calls, ends all with one message") {
  const MpiPlace place;
  prepare(place, 4096, 20000);
  const std::vector<std::string> words = {"-q", "--backend", "cpu", "--memory-limit", "60M", "x.bin", "y.bin", "z.bin"};
  for (const char* const records : {"read", "sent"}) {
    for (int rank = 0; rank < 3; ++rank) {
      const std::string at = ":" + std::to_string(rank) + ":";
      const std::string place_words = "[rank " + std::to_string(rank) + " of 3 on ";
      const auto check = [&](const std::string& fault, const char* words_of_error) {
        INFO(fault << ", records " << records);
        const Variables variables = {{"SPMM_MPI_FAULT", fault}, {"SPMM_MPI_RECORDS", records}};
        const std::string err = check_failure(3, words, kIoError, words_of_error, variables);
        CHECK(err.find(place_words) != std::string::npos);
        CHECK(ranks_running("z.bin").empty());
      };
      check("enospc" + at + "1", "No space left on device");
      check("enospc" + at + "3", "No space left on device");
      check("write-eio" + at + "2", "Input/output error");
      check("read-eio" + at + "2", "Input/output error");    // samples
      check("read-eio" + at + "130", "Input/output error");  // while other ranks wait for records
      check("read-eio" + at + "260", "Input/output error");
    }
  }
}

TEST_CASE("a disk that fails while parts of the inner dimension are computed or added up ends all with one message") {
  const MpiPlace place;
  prepare(place, 4096, 20000);
  const std::vector<std::string> words = {"-q", "--backend", "cpu", "x.bin", "y.bin", "z.bin"};
  for (int rank = 0; rank < 3; ++rank) {
    for (const std::string fault : {"enospc:R:1", "enospc:R:4", "read-eio:R:260"}) {
      std::string here = fault;
      here.replace(here.find('R'), 1, std::to_string(rank));
      INFO(here);
      const std::string err =
          check_failure(3, words, kIoError, "error", {{"SPMM_MPI_FAULT", here}, {"SPMM_MPI_DIVISION", "inner"}});
      CHECK(err.find("[rank " + std::to_string(rank) + " of 3 on ") != std::string::npos);
    }
  }
}

TEST_CASE("a disk that fails in one of several steps ends all with one message") {
  const MpiPlace place;
  const auto [a, b] = operands_in_steps();
  place.set_operands(a, b);
  put_content("z.bin", kOld);
  const std::vector<std::string> words = {"-q", "--backend", "cpu", "--memory-limit", "9M", "x.bin", "y.bin", "z.bin"};
  Variables variables = {{"SPMM_MPI_DIVISION", "rows"}, {"SPMM_MPI_RECORDS", "sent"}, {"SPMM_MPI_FAULT", ""}};
  for (const char* const fault : {"enospc:0:1", "enospc:0:2", "enospc:0:3"}) {
    INFO(fault);
    variables.back().second = fault;
    check_failure(7, words, kIoError, "No space left on device", variables);
  }
}

TEST_CASE("an input that changes while ranks read it is an error") {
  const MpiPlace place;
  prepare(place, 16384, 100000);
  std::vector<int> ranks;
  const auto run = stopped_run({"-q", "--backend", "cpu", "x.bin", "y.bin", "z.bin"}, ranks);
  REQUIRE(run);
  std::filesystem::last_write_time("y.bin", std::filesystem::file_time_type::clock::now());
  for (const int pid : ranks) ::kill(pid, SIGCONT);
  const ProcessResult result = run->wait();
  INFO(result.err);
  CHECK(result.exit_code == kBadData);
  const std::vector<std::string> messages = own_messages(result.err);
  REQUIRE(messages.size() == 1);
  CHECK(messages.front().find("y.bin: the file was changed while it was read") != std::string::npos);
  CHECK(content_of("z.bin") == kOld);
  CHECK(other_names({"x.bin", "y.bin", "z.bin", "expected.bin"}).empty());
}

TEST_CASE("bad inputs and options are rejected once, with the rank that saw them") {
  const MpiPlace place;
  prepare(place, 256, 300);
  const std::vector<std::string> words = {"-q", "--backend", "cpu", "x.bin", "y.bin", "z.bin"};
  check_failure(2, {"-q", "x.bin", "nothing.bin", "z.bin"}, kNoInput, "nothing.bin");
  check_failure(2, {"--plan", "x.bin", "y.bin", "z.bin"}, kUsage, "--plan");
  check_failure(2, {"--progress", "always", "x.bin", "y.bin", "z.bin"}, kUsage, "--progress");
  check_failure(2, {"--kernel", "none", "x.bin", "y.bin", "z.bin"}, kUsage, "--kernel");
  check_failure(2, {"--no-clobber", "-q", "x.bin", "y.bin", "z.bin"}, kCannotCreate, "exists");
  check_failure(2, {"-q", "x.bin", "y.bin", "folder/z.bin"}, kCannotCreate, "folder");
  check_failure(2, {"-q", "x.bin", "y.bin", "x.bin"}, kUsage, "same file");
  check_failure(2, {"--memory-limit", "5k", "-q", "--backend", "cpu", "x.bin", "y.bin", "z.bin"}, kMemory, "memory");
  const std::string good_a = content_of("x.bin");
  const std::string good_b = content_of("y.bin");
  move_record("x.bin", 250, 64, 0);
  check_failure(2, words, kBadData, "x.bin, record 250 (byte offset 10012): block index (64, 0)");
  put_content("x.bin", good_a);
  move_record("y.bin", 7, 0, 64);
  check_failure(3, words, kBadData, "y.bin, record 7 ");
  put_content("y.bin", good_b);
  // The same block twice, in the shares of two ranks; of a row of B that nothing meets as well.
  move_record("x.bin", 3, 5, 5);
  move_record("x.bin", 290, 5, 5);
  check_failure(3, words, kBadData,
                "x.bin, record 290 (byte offset 11612): block (5, 5) was stored before in record 3 ");
  spmm::write_matrix("x.bin", {.n = 256, .m = 4, .index = {}, .values = {}});
  move_record("y.bin", 4, 9, 9);
  move_record("y.bin", 299, 9, 9);
  check_failure(3, words, kBadData,
                "y.bin, record 299 (byte offset 11972): block (9, 9) was stored before in record 4 ");
}

TEST_CASE("a second run with the same output is refused while the first one lives") {
  const MpiPlace place;
  prepare(place, 256, 300);
  const std::vector<std::string> words = {"-q", "--backend", "cpu", "x.bin", "y.bin", "z.bin"};
  put_content(kTemporary, "");
  const int fd = ::open(kTemporary, O_RDWR);
  REQUIRE(::flock(fd, LOCK_EX) == 0);
  check_failure(2, words, kCannotCreate, "another run writes it now");
  check_failure(1, words, kCannotCreate, "another run writes it now");
  ::close(fd);
  // What a killed run has left is taken over, whatever it holds.
  put_content(kTemporary, std::string(1'000'000, 'x'));
  ::chmod(kTemporary, 0600);
  CHECK(run_ranks(2, words).exit_code == 0);
  CHECK(content_of("z.bin") == content_of("expected.bin"));
  CHECK(other_names({"x.bin", "y.bin", "z.bin", "expected.bin"}).empty());
}

TEST_CASE("of two live runs with the same output the second one is refused, the first one goes on") {
  const MpiPlace place;
  prepare(place, 16384, 100000);
  const std::vector<std::string> words = {"-q", "--backend", "cpu", "x.bin", "y.bin", "z.bin"};
  std::vector<int> ranks;
  const auto first = stopped_run(words, ranks);  // so that it lives until the second one has ended
  REQUIRE(first);
  check_failure(2, words, kCannotCreate, "another run writes it now");
  for (const int pid : ranks) ::kill(pid, SIGCONT);
  CHECK(first->wait().exit_code == 0);
  CHECK(content_of("z.bin") == content_of("expected.bin"));
}

TEST_CASE("the output keeps its permission bits") {
  const MpiPlace place;
  prepare(place, 256, 300);
  ::chmod("z.bin", 0640);
  CHECK(run_ranks(2, {"-q", "--backend", "cpu", "x.bin", "y.bin", "z.bin"}).exit_code == 0);
  struct stat info {};
  REQUIRE(::stat("z.bin", &info) == 0);
  CHECK((info.st_mode & 0777) == 0640);
}

TEST_CASE("tasks that do not see each other are refused") {
  const MpiPlace place;
  prepare(place, 256, 300);
  ProcessOptions options;
  options.env = {{"SLURM_NTASKS", "4"}, {"OMPI_MCA_btl", "self"}};
  const ProcessResult result =
      run_process({std::string(SPMM_BIN_DIR) + "/spmm-mpi", "-q", "x.bin", "y.bin", "z.bin"}, options);
  INFO(result.err);
  CHECK(result.exit_code == kUsage);
  CHECK(result.err.find("SLURM_NTASKS says 4 tasks") != std::string::npos);
  CHECK(content_of("z.bin") == kOld);
}

TEST_CASE(
    "kill -9 of any rank at any moment of a product ends all, keeps the old output and leaves one temporary at most") {
  const MpiPlace place;
  prepare(place, 16384, 100000);
  std::mt19937 random(7);
  const std::vector<std::string> words = {"-q", "--backend", "cpu", "x.bin", "y.bin", "z.bin"};
  const char* const wish = std::getenv("SPMM_TEST_KILLS");  // of each rank
  const int num_rounds = 3 * (wish != nullptr ? std::atoi(wish) : 3);
  int num_killed = 0;
  for (int round = 0; round < num_rounds; ++round) {
    ::unlink(kTemporary);  // of the round before
    ProcessOptions options;
    options.env = {{"SPMM_MPI_RECORDS", round % 2 == 0 ? "read" : "sent"}};
    Process run(mpi_words(3, words), options);
    const auto start = Clock::now();
    // All ranks have met by then: Open MPI's launcher may hang for ever when one dies before.
    while (::access(kTemporary, F_OK) != 0 && content_of("z.bin") == kOld && Clock::now() - start < kPatience) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(round < 3 ? 0 : random() % 150));
    for (const int pid : ranks_running("z.bin")) {
      if (rank_of(pid) == round % 3) ::kill(pid, SIGKILL);
    }
    wait_until_gone();
    const ProcessResult result = run.wait();
    INFO("round " << round << ": " << result.err);
    CHECK_FALSE(result.timed_out);
    const std::vector<std::string> left = other_names({"x.bin", "y.bin", "z.bin", "expected.bin"});
    CHECK((left.empty() || left == std::vector<std::string>{kTemporary}));
    if (result.exit_code == 0) {
      CHECK(content_of("z.bin") == content_of("expected.bin"));
    } else {
      ++num_killed;
      CHECK(result.exit_code == 137);
      const bool is_published = content_of("z.bin") == content_of("expected.bin");  // killed behind the rename
      const bool is_old = content_of("z.bin") == kOld;
      CHECK((is_old || is_published));
    }
    put_content("z.bin", kOld);
  }
  WARN(num_killed << " of " << num_rounds << " runs were killed");
  CHECK(run_ranks(3, words).exit_code == 0);
  CHECK(content_of("z.bin") == content_of("expected.bin"));
  CHECK(other_names({"x.bin", "y.bin", "z.bin", "expected.bin"}).empty());
}

TEST_CASE("SIGTERM to a rank is an interruption: code 75, nothing left") {
  const MpiPlace place;
  prepare(place, 16384, 100000);
  std::vector<int> ranks;
  // As soon as the output is being made, the handler is there.
  const auto run = stopped_run({"-q", "--backend", "cpu", "x.bin", "y.bin", "z.bin"}, ranks);
  REQUIRE(run);
  ::kill(ranks[1], SIGTERM);
  for (const int pid : ranks) ::kill(pid, SIGCONT);
  const ProcessResult result = run->wait();
  INFO(result.err);
  CHECK(result.exit_code == kInterrupted);
  CHECK(own_messages(result.err).size() == 1);
  CHECK(content_of("z.bin") == kOld);
  CHECK(other_names({"x.bin", "y.bin", "z.bin", "expected.bin"}).empty());
}
