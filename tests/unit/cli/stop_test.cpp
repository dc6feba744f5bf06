// Programs that do not look at their cancel flag, and products that get no threads.
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
#include "spmm/io.hpp"
#include "spmm/multiply.hpp"
#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "support/process.hpp"
#include "test_paths.hpp"

namespace {

using namespace spmm::test;
using namespace spmm::cli;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr Seconds kLongestEnd{10};  // milliseconds where nothing else runs

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
    const WorkingFolder folder;
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

TEST_CASE("a product gets by without threads") {
  if (!kForksWithThreads) {
    WARN("not with this sanitizer or emulator");
    return;
  }
  const WorkingFolder folder;
  spmm::write_matrix("a.bin", random_matrix(64, 4, 60, 65535, 1));
  REQUIRE(run_process({SPMM_BIN_DIR "/spmm", "--backend", "cpu", "a.bin", "a.bin", "c.bin"}).exit_code == kOk);
  for (const unsigned limit : {0u, 2u, 3u, 6u}) {
    const int status = exit_status_under_thread_limit(limit, [] {
      spmm::Options options;
      options.backend = spmm::Backend::cpu;
      options.num_threads = 8;
      spmm::multiply("a.bin", "a.bin", "d.bin", options);
      return 0;
    });
    CHECK(status == 0);
    CHECK((bytes_of("d.bin") == bytes_of("c.bin")));
    fs::remove("d.bin");
  }
}
