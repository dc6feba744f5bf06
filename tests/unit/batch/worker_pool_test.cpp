// Worker processes that cannot be started, and one that cannot be killed: fork() and kill() of the system are replaced.
#include "tools/batch/schedule/pool.hpp"

#include <dlfcn.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "spmm/error.hpp"
#include "support/catch.hpp"

namespace {

using namespace spmm::batch;

int num_failing_forks = 0;
pid_t unkillable = -1;

std::vector<PoolWorker> one_worker() {
  std::vector<PoolWorker> workers(1);
  workers[0].name = "cpu";
  return workers;
}

}  // namespace

extern "C" pid_t fork() noexcept {
  static auto* const real_fork = reinterpret_cast<pid_t (*)()>(dlsym(RTLD_NEXT, "fork"));
  if (num_failing_forks == 0) return real_fork();
  --num_failing_forks;
  errno = EAGAIN;
  return -1;
}

extern "C" int kill(pid_t pid, int number) noexcept {
  return pid == unkillable ? 0 : static_cast<int>(::syscall(SYS_kill, pid, number));
}

TEST_CASE("a worker for which there is no process now is started later") {
  WorkerPool pool(one_worker(), [] {});
  num_failing_forks = 3;
  for (int attempt = 0; attempt < 3; ++attempt) {
    CHECK(pool.send(0, CancelOrder{.id = 1}) == SendState::full);
    CHECK(pool.workers()[0].start_problem.find("fork: Resource temporarily unavailable") != std::string::npos);
  }
  CHECK(pool.send(0, CancelOrder{.id = 1}) == SendState::sent);
  CHECK(pool.workers()[0].num_starts == 1);
  // For ever: an error, as nothing else runs.
  WorkerPool other(one_worker(), [] {});
  other.workers()[0].start_failed_s = 1;  // long ago
  num_failing_forks = 1;
  CHECK_THROWS_AS(other.send(0, CancelOrder{.id = 1}), spmm::IoError);
}

TEST_CASE("a worker that cannot be killed is left alone, and another one takes its place") {
  bool is_first = true;
  WorkerPool pool(one_worker(), [&] {
    while (is_first) ::pause();
  });
  REQUIRE(pool.send(0, CancelOrder{.id = 1}) == SendState::sent);
  const pid_t stuck = pool.workers()[0].pid;
  unkillable = stuck;
  const auto start = std::chrono::steady_clock::now();
  CHECK(pool.end(0, true, 0.05).is_stuck);
  is_first = false;
  CHECK(pool.send(0, CancelOrder{.id = 1}) == SendState::sent);
  CHECK(pool.workers()[0].num_starts == 2);
  CHECK(pool.workers()[0].pid != stuck);
  const WorkerEnd second = pool.end(0, true, 5);
  CHECK_FALSE(second.is_stuck);
  CHECK(WTERMSIG(second.wait_status) == SIGKILL);
  is_first = true;
  REQUIRE(pool.send(0, CancelOrder{.id = 1}) == SendState::sent);
  const pid_t last = unkillable = pool.workers()[0].pid;
  pool.shut_down(0.05);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
  unkillable = -1;
  for (const pid_t pid : {stuck, last}) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
}
