// Traces: events nest, buffers stay bounded, threads and streams get tracks of their own.
#include "base/run/stage_clock.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "base/run/run.hpp"
#include "io/files/file_sink.hpp"
#include "support/catch.hpp"

namespace {

using namespace spmm;

/// Whether events are in order and two of them are apart or contain each other, as their depths say.
bool nests(const TraceTrack& track) {
  std::vector<std::int64_t> open;
  std::int64_t last = 0;
  for (const TraceEvent& event : track.events) {
    if (event.begin_ns < last || event.end_ns < event.begin_ns) return false;
    last = event.begin_ns;
    while (open.size() > event.depth) open.pop_back();
    if (open.size() != event.depth || (!open.empty() && event.end_ns > open.back())) return false;
    open.push_back(event.end_ns);
  }
  return true;
}

std::uint64_t num_intervals(const TraceTrack& track) {
  std::uint64_t num = 0;
  for (const TraceEvent& event : track.events) num += event.num;
  return num;
}

/// As TraceLog::take() gives it.
TraceTrack in_order(TraceTrack track) {
  std::sort(track.events.begin(), track.events.end(), [](const TraceEvent& x, const TraceEvent& y) {
    return x.begin_ns != y.begin_ns ? x.begin_ns < y.begin_ns : x.depth < y.depth;
  });
  return track;
}

}  // namespace

TEST_CASE("short neighbours of one name are one event, others are not") {
  TraceLane lane;
  lane.add({.name = "read", .begin_ns = 0, .end_ns = 1000, .work = {.bytes = 3, .panel = 4}});
  lane.add({.name = "read", .begin_ns = 1200, .end_ns = 2000, .work = {.bytes = 5, .panel = 5}});
  lane.add({.name = "write", .begin_ns = 2000, .end_ns = 3000});
  lane.add({.name = "write", .begin_ns = 3000, .end_ns = 3000 + lane.resolution_ns});   // together too long
  lane.add({.name = "write", .begin_ns = 900'000, .end_ns = 901'000});                  // too far away
  lane.add({.name = "build", .begin_ns = 1'000'100, .end_ns = 1'000'200, .depth = 1});  // inside of the next
  lane.add({.name = "build", .begin_ns = 1'000'000, .end_ns = 1'000'300});
  const TraceTrack track = in_order(lane.track);
  REQUIRE(track.events.size() == 6);
  CHECK(track.events[0].end_ns == 2000);
  CHECK(track.events[0].num == 2);
  CHECK(track.events[0].work.bytes == 8);
  CHECK(track.events[0].work.panel == 4);
  CHECK(track.events[4].depth == 0);
  CHECK(track.events[5].depth == 1);
  CHECK(nests(track));
}

TEST_CASE("a full list is joined and thinned, and still nests") {
  const std::int64_t gap = GENERATE(0, 10'000, 300'000);
  TraceLane lane;
  std::int64_t now = 0;
  constexpr std::uint64_t kParents = 3000;
  for (std::uint64_t parent = 0; parent < kParents; ++parent) {
    const std::int64_t begin = now;
    for (int child = 0; child < 4; ++child) {
      const std::int64_t child_begin = now += gap;
      now += 200'000;
      lane.add({.name = child % 2 == 0 ? "multiply" : "write",
                .begin_ns = child_begin,
                .end_ns = now,
                .work = {.bytes = 1},
                .depth = 1});
    }
    lane.add({.name = "product", .begin_ns = begin, .end_ns = now});
  }
  const TraceTrack track = in_order(lane.track);
  CHECK(track.events.size() <= TraceLane::kMaxEvents);
  CHECK(track.events.size() > TraceLane::kMaxEvents / 32);
  CHECK(nests(track));
  CHECK(num_intervals(track) <= 5 * kParents);
  CHECK(num_intervals(track) > kParents / 2);
}

TEST_CASE("tracks of streams are put in order and overlaps are cut off") {
  TraceLog log(TraceLog::Clock::now());
  log.add_track({.device = 0,
                 .owner = "G",
                 .name = "stream 1",
                 .events = {{.name = "multiply", .begin_ns = 500, .end_ns = 900}}});
  log.add_track({.device = 0,
                 .owner = "G",
                 .name = "stream 1",
                 .events = {{.name = "build", .begin_ns = -5, .end_ns = 503},
                            {.name = "count", .begin_ns = 600, .end_ns = 901},
                            {.name = "d2h", .begin_ns = 950, .end_ns = 5000}}});
  log.add_track({.device = 1, .owner = "G", .name = "stream 1"});
  const Trace trace = log.take(1000);
  REQUIRE(trace.tracks.size() == 3);
  CHECK(trace.end_ns == 1000);
  CHECK(trace.tracks[0].name == "main");
  const TraceTrack& stream = trace.tracks[1];
  REQUIRE(stream.events.size() == 4);
  CHECK(nests(stream));
  CHECK(stream.events[0].begin_ns == 0);
  CHECK(stream.events[1].depth == 1);
  CHECK(stream.events[3].end_ns == 1000);
}

TEST_CASE("the time of a stage is the union of the times in which it was worked on") {
  using namespace std::chrono_literals;
  StageClock clock;
  {
    const auto around = clock.frame(Stage::multiply);
    std::this_thread::sleep_for(30ms);
  }
  CHECK(clock.totals(Stage::multiply).s == 0);
  const auto start = std::chrono::steady_clock::now();
  {
    const auto around = clock.frame(Stage::multiply);
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        const auto piece = clock.worker_scope(Stage::multiply);
        std::this_thread::sleep_for(20ms);
      });
    }
  }
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  CHECK(clock.totals(Stage::multiply).s >= 0.02);
  CHECK(clock.totals(Stage::multiply).s <= wall);
}
