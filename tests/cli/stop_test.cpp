// Asking the program to stop twice, and programs that get no threads.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/temporary_names.hpp"
#include "cli/exit_codes.hpp"
#include "cli/program.hpp"
#include "cli/workplace.hpp"
#include "spmm/io.hpp"
#include "spmm/multiply.hpp"
#include "support/catch.hpp"
#include "support/matrix_builder.hpp"

namespace {

using namespace spmm::test;
using namespace spmm::cli;
namespace fs = std::filesystem;
using Words = std::vector<std::string>;

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr Seconds kLongestEnd{10};
#else
constexpr Seconds kLongestEnd{2};
#endif

/// Standard error becomes a pipe that is full and that nobody reads.
void clog_standard_error() {
  int ends[2];
  if (::pipe2(ends, O_NONBLOCK) != 0) return;
  const char bytes[4096] = {};
  while (::write(ends[1], bytes, sizeof bytes) > 0) {
  }
  ::fcntl(ends[1], F_SETFL, 0);
  ::dup2(ends[1], STDERR_FILENO);
}

/// A program that never looks at its cancel flag, with a temporary file in the working folder.
[[noreturn]] void never_stop(int ready_fd) {
  for (const int number : kStopSignals) ::signal(number, SIG_DFL);  // Catch2 handles some
  install_signal_handlers();
  const int folder = ::open(".", O_RDONLY | O_DIRECTORY);
  spmm::TemporaryName name;
  {
    const spmm::ProtectedSection section;
    ::close(::openat(folder, "half.tmp", O_CREAT | O_WRONLY, 0600));
    name.set(section, folder, "half.tmp");
  }
  [[maybe_unused]] const ssize_t put = ::write(ready_fd, "r", 1);
  while (true) ::pause();
}

/// Files of a product of 4 block columns by 4 block rows: each of its num_rows^2 blocks is there.
void write_outer_product(std::uint32_t num_rows, const std::string& columns, const std::string& rows) {
  MatrixBuilder a(num_rows, 4, 1);
  MatrixBuilder b(num_rows, 4, 2);
  for (std::uint32_t i = 0; i < num_rows; ++i) {
    for (std::uint32_t t = 0; t < 4; ++t) {
      a.add_constant(i, t, 65535);
      b.add_constant(t, i, 65535);
    }
  }
  spmm::write_matrix(columns, a.matrix());
  spmm::write_matrix(rows, b.matrix());
}

bool has_temporary_file(const fs::path& folder) {
  for (const std::string& name : names_in(folder)) {
    if (name.ends_with(".tmp")) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("a first signal ends a program that does not look at its cancel flag") {
  std::vector<int> numbers(std::begin(kStopSignals), std::end(kStopSignals));
  numbers.push_back(SIGALRM);
  for (const int number : numbers) {
    INFO("signal " << number);
    const Workplace workplace;
    int ready[2];
    REQUIRE(::pipe(ready) == 0);
    const pid_t child = ::fork();
    if (child == 0 && number == SIGINT) clog_standard_error();
    if (child == 0) never_stop(ready[1]);
    char byte = 0;
    REQUIRE(::read(ready[0], &byte, 1) == 1);
    CHECK(has_temporary_file("."));
    ::kill(child, number);
    const auto start = Clock::now();
    int status = 0;
    pid_t ended = 0;
    while ((ended = ::waitpid(child, &status, WNOHANG)) == 0 && Clock::now() - start < kLongestEnd) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    CHECK(ended == child);
    if (ended == 0) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
    }
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == kInterrupted);
    CHECK_FALSE(has_temporary_file("."));
    for (const int fd : ready) ::close(fd);
  }
}

TEST_CASE("a first signal ends long products in all their stages, with every kernel of the CPU backend") {
  const Workplace workplace;
  write_outer_product(20'000, "columns.bin", "rows.bin");
  write_outer_product(200'000, "more_columns.bin", "more_rows.bin");
  const std::vector<Words> products = {
      {"columns.bin", "rows.bin", "/dev/null"},
      {"more_columns.bin", "more_rows.bin", "/dev/null"},
      {"--kernel", "reference", "columns.bin", "rows.bin", "old.bin"},
      {"--kernel", "row-merge", "more_columns.bin", "more_rows.bin", "/dev/null"},
      {"--verify", "full", "columns.bin", "rows.bin", "/dev/null"},
      {"--verify", "100000", "more_columns.bin", "more_rows.bin", "/dev/null"},
  };
  const Words names = names_in(".");
  for (const Words& product : products) {
    for (const int delay_ms : {5, 60, 300}) {
      Words words = {"--backend", "cpu", "--threads", "2"};
      words.insert(words.end(), product.begin(), product.end());
      Process process(spmm_words(words));
      process.wait_until_handled(SIGTERM);
      std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
      process.send_signal(SIGTERM);
      const auto start = Clock::now();
      const ProcessResult result = process.wait();
      INFO(product[1] << " after " << delay_ms << " ms: " << result.err);
      CHECK(Seconds(Clock::now() - start) < kLongestEnd);
      CHECK(result.exit_code == kInterrupted);
      CHECK(names_in(".") == names);
      CHECK(bytes_of("old.bin") == kOldContent);
    }
  }
}

TEST_CASE("two SIGTERM half a second apart while the output gets its name leave nothing behind") {
  const Workplace workplace;
  const std::string strace = "/usr/bin/strace";
  if (!fs::exists(strace) || run_process({strace, "-D", "-o", "/dev/null", "/bin/true"}).exit_code != 0) {
    WARN("no strace here that may trace");
    return;
  }
  REQUIRE(spmm_command({"--backend", "cpu", "a.bin", "b.bin", "c.bin"}).exit_code == kOk);
  const std::string complete = bytes_of("c.bin");
  Words words = {
      strace, "-D", "-f", "-o", "/dev/null", "-e", "trace=renameat", "-e", "inject=renameat:delay_enter=3000000"};
  for (const std::string& word : spmm_words({"--backend", "cpu", "--threads", "2", "a.bin", "b.bin", "old.bin"})) {
    words.push_back(word);
  }
  Process process(words);
  process.wait_until_handled(SIGTERM);
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (!has_temporary_file(".") && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  REQUIRE(has_temporary_file("."));
  process.send_signal(SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  process.send_signal(SIGTERM);
  const ProcessResult result = process.wait();
  INFO(result.exit_code << " " << result.err);
  CHECK((result.exit_code == kInterrupted || result.exit_code == kOk));
  CHECK(names_in(".") == Words{"a.bin", "b.bin", "c.bin", "old.bin"});
  CHECK((bytes_of("old.bin") == complete));
}

TEST_CASE("a product gets by without threads") {
  if (!kForksWithThreads) {
    WARN("not with this sanitizer or emulator");
    return;
  }
  const Workplace workplace;
  fs::permissions(".", fs::perms::all);
  REQUIRE(spmm_command({"--backend", "cpu", "a.bin", "b.bin", "c.bin"}).exit_code == kOk);
  for (const unsigned limit : {0u, 2u, 3u, 6u}) {
    const int status = exit_status_under_thread_limit(limit, [] {
      spmm::Options options;
      options.backend = spmm::Backend::cpu;
      options.num_threads = 8;
      spmm::multiply("a.bin", "b.bin", "d.bin", options);
      return 0;
    });
    CHECK(status == 0);
    CHECK((bytes_of("d.bin") == bytes_of("c.bin")));
    fs::remove("d.bin");
  }
}
