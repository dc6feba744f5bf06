// The pool of threads: every index once, threads reused, several callers, failures, no threads to be had.

#include <atomic>
#include <filesystem>
#include <stdexcept>

#include "base/run/parallel.hpp"
#include "support/catch.hpp"
#include "support/process.hpp"

namespace {

using namespace spmm;

/// Threads of this process.
std::ptrdiff_t num_threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

/// Runs `num` indices and checks that each ran once.
void check_each_once(Workers& workers, unsigned num) {
  std::vector<std::atomic<int>> times(num);
  workers.run(num, [&](unsigned index) { ++times.at(index); });
  for (const auto& t : times) CHECK(t == 1);
}

TEST_CASE("each index runs once, index 0 on the caller's thread, on threads that are kept") {
  const std::ptrdiff_t before = num_threads();
  Workers workers;
  check_each_once(workers, 1);
  CHECK(num_threads() == before);
  for (const unsigned num : {2u, 5u, 3u, 8u}) check_each_once(workers, num);
  CHECK(num_threads() == before + 7);
  for (int i = 0; i < 2000; ++i) check_each_once(workers, 2 + i % 7);
  CHECK(num_threads() == before + 7);
  std::thread::id of_zero;
  workers.run(4, [&](unsigned index) {
    if (index == 0) of_zero = std::this_thread::get_id();
  });
  CHECK(of_zero == std::this_thread::get_id());
  int calls = 0;
  workers.run(0, [&](unsigned index) { calls += index == 0 ? 1 : 100; });
  CHECK(calls == 1);
}

TEST_CASE("indices run at the same time where there are threads") {
  Workers workers;
  std::atomic<int> started{0};
  std::atomic<bool> go{false};
  workers.run(4, [&](unsigned index) {
    ++started;
    if (index == 0) {  // the others start although this one does not return
      while (started < 4) std::this_thread::yield();
      go = true;
    }
    while (!go) std::this_thread::yield();
  });
  CHECK(started == 4);
}

TEST_CASE("the first exception is rethrown once all indices have run") {
  Workers workers;
  for (const unsigned bad : {0u, 1u, 5u}) {
    std::atomic<int> calls{0};
    const auto run = [&] {
      workers.run(6, [&](unsigned index) {
        ++calls;
        if (index == bad) throw std::runtime_error("bad " + std::to_string(index));
      });
    };
    CHECK(test::message_of<std::runtime_error>(run) == "bad " + std::to_string(bad));
    CHECK(calls == 6);
  }
  CHECK_THROWS_AS(workers.run(8, [](unsigned) { throw std::logic_error("all"); }), std::logic_error);
  check_each_once(workers, 8);
}

TEST_CASE("several callers at once, also from within a body") {
  Workers workers;
  std::atomic<std::uint64_t> sum{0};
  {
    std::vector<std::jthread> callers;
    for (int c = 0; c < 6; ++c) {
      callers.emplace_back([&] {
        for (int i = 0; i < 100; ++i) {
          workers.run(4, [&](unsigned) { workers.run(3, [&](unsigned inner) { sum += inner + 1; }); });
        }
      });
    }
  }
  CHECK(sum == 6u * 100 * 4 * (1 + 2 + 3));
}

TEST_CASE("parallel_for covers every number once, and stops handing out after a failure") {
  for (const std::uint64_t grain : {0u, 1u, 7u, 1000u}) {
    std::vector<std::atomic<int>> times(1000);
    std::atomic<std::uint64_t> too_long{0};
    parallel_for(5, times.size(), grain, [&](std::uint64_t begin, std::uint64_t end) {
      if (end - begin > std::max<std::uint64_t>(grain, 1)) too_long = end - begin;
      for (std::uint64_t x = begin; x < end; ++x) ++times.at(x);
    });
    CHECK(too_long == 0);
    CHECK(std::all_of(times.begin(), times.end(), [](const auto& t) { return t == 1; }));
  }
  std::atomic<int> calls{0};
  const auto fail = [&](std::uint64_t, std::uint64_t) {
    ++calls;
    throw std::runtime_error("stop");
  };
  CHECK_THROWS_AS(parallel_for(4, 1000, 1, fail), std::runtime_error);
  CHECK(calls <= 4);
  parallel_for(4, 0, 1, fail);
  CHECK(calls <= 4);
}

TEST_CASE("where no thread can be started the caller does all the work") {
  if (!test::kForksWithThreads) {
    WARN("not with this sanitizer or emulator");
    return;
  }
  const int status = test::exit_status_under_thread_limit(0, [] {
    Workers workers;
    std::atomic<int> calls{0};
    const auto start = std::this_thread::get_id();
    bool all_here = true;
    workers.run(8, [&](unsigned) {
      ++calls;
      all_here = all_here && std::this_thread::get_id() == start;
    });
    std::atomic<std::uint64_t> sum{0};
    const auto add = [&](std::uint64_t begin, std::uint64_t end) {
      for (std::uint64_t x = begin; x < end; ++x) sum += x;
    };
    // The pool of the process has threads that this child of a fork lacks: its condition variable may wait for them.
    parallel_for(4, 100, 3, add, [&](unsigned num, const Workers::Body& body) { workers.run(num, body); });
    const bool none = !start_thread([] {}).joinable();
    return none && all_here && calls == 8 && sum == 4950 ? 0 : 1;
  });
  CHECK(status == 0);
}

}  // namespace
