// Who gets which job, and what a failure leads to.
#include "tools/batch/schedule/schedule.hpp"

#include <algorithm>

#include "cli/exit_codes.hpp"
#include "support/catch.hpp"
#include "tools/batch/schedule/table.hpp"

namespace {

using namespace spmm;
using namespace spmm::batch;

WorkerLoad cpu(unsigned cores = 4) {
  return {.kind = WorkerKind::cpu, .num_cores = cores, .num_slots = 2 * cores, .max_jobs = 2 * cores};
}

WorkerLoad gpu() {
  return {.kind = WorkerKind::gpu, .num_cores = 4, .num_slots = 4, .max_jobs = 4};
}

Demand demand(double cpu_s, double gpu_s) {
  return {.cpu_s = cpu_s, .gpu_s = gpu_s, .cpu_threads = 1};
}

std::vector<std::size_t> workers_of(const std::vector<Grant>& grants) {
  std::vector<std::size_t> workers;
  for (const Grant& grant : grants) workers.push_back(grant.worker);
  return workers;
}

JobRun run_with(bool company, bool cancelled, std::uint64_t counted) {
  JobRun run;
  run.job.options.retries = 1;
  run.had_company = company;
  run.cancelled = cancelled;
  run.counted_failures = counted;
  return run;
}

}  // namespace

TEST_CASE("a worker that is slower than predicted gets fewer jobs, from its first few on") {
  Slowness slowness;
  CHECK(slowness.factor() == 1);
  double now = 5;
  slowness.started(now, true);
  for (int job = 0; job < 4; ++job) slowness.ended(now += 1, 0.1);  // start of a device and the like
  CHECK(slowness.factor() == 1);
  for (int job = 0; job < 4; ++job) slowness.ended(now += 0.3, 0.1);
  CHECK(slowness.factor() == Approx(3));
  slowness.started(now += 100, true);  // idle time does not count
  for (int job = 0; job < 4; ++job) slowness.ended(now += 0.1, 0.1);
  CHECK(slowness.factor() == Approx(2));
  slowness.started(now, false);  // at the same time as others
  slowness.ended(now += 1000, 0.1);
  CHECK(slowness.factor() == 10);

  WorkerLoad slow = gpu();
  slow.slowness = 3;
  CHECK(workers_of(hand_out({demand(0.2, 0.1)}, {cpu(), gpu()})) == std::vector<std::size_t>{1});
  CHECK(workers_of(hand_out({demand(0.2, 0.1)}, {cpu(), slow})) == std::vector<std::size_t>{0});
  slow.backlog_s = 1;
  CHECK(workers_of(hand_out({demand(2.9, 0.1)}, {cpu(), slow})) == std::vector<std::size_t>{0});
  CHECK(workers_of(hand_out({demand(3.5, 0.1)}, {cpu(), slow})) == std::vector<std::size_t>{1});
}

TEST_CASE("each job goes where it ends first") {
  CHECK(workers_of(hand_out({demand(0.1, 1), demand(1, 0.1)}, {cpu(), gpu()})) == std::vector<std::size_t>{0, 1});
  // A GPU that has not started has its start before it.
  WorkerLoad cold = gpu();
  cold.start_s = 0.3;
  CHECK(workers_of(hand_out({demand(0.2, 0.1)}, {cpu(), cold})) == std::vector<std::size_t>{0});
  CHECK(workers_of(hand_out({demand(9, 0.1)}, {cpu(), cold})) == std::vector<std::size_t>{1});
  // It may start while the cores run what waits behind.
  CHECK(workers_of(hand_out({demand(0.2, 0.1)}, {cpu(), cold}, 2)) == std::vector<std::size_t>{0});
  CHECK(workers_of(hand_out({demand(0.2, 0.1)}, {cpu(), cold}, 100)) == std::vector<std::size_t>{1});
  // The second of two long jobs ends first where it need not wait for the first.
  CHECK(workers_of(hand_out({demand(1.5, 1), demand(1.5, 1)}, {cpu(1), gpu()})) == std::vector<std::size_t>{1, 0});
}

TEST_CASE("a forced backend is kept, and without its worker nothing can run") {
  Demand job = demand(0.1, 1);
  job.backend = Backend::cuda;
  CHECK(workers_of(hand_out({job}, {cpu(), gpu()})) == std::vector<std::size_t>{1});
  CHECK_FALSE(can_run(job, {cpu()}));
  CHECK(hand_out({job}, {cpu()}).empty());
  WorkerLoad broken = gpu();
  broken.usable = false;
  CHECK_FALSE(can_run(job, {cpu(), broken}));
}

TEST_CASE("slots and the limit of jobs bound what is in flight") {
  const std::vector<Demand> many(100, demand(0.001, 1));
  CHECK(hand_out(many, {cpu(4)}).size() == 8);
  WorkerLoad busy = cpu(4);
  busy.num_jobs = busy.used_slots = 7;
  CHECK(hand_out(many, {busy}).size() == 1);
  busy.max_jobs = 7;
  CHECK(hand_out(many, {busy}).empty());
  std::vector<Demand> wide(5, demand(1, 9));
  for (Demand& job : wide) job.cpu_threads = 4;
  const auto grants = hand_out(wide, {cpu(4)});
  REQUIRE(grants.size() == 2);  // one reads while the other computes
  CHECK(grants[0].num_threads == 4);
}

TEST_CASE("a suspect waits for an empty worker and keeps others out") {
  Demand suspect = demand(0.1, 9);
  suspect.alone = true;
  const std::vector<Demand> jobs = {suspect, demand(0.1, 9)};
  WorkerLoad busy = cpu();
  busy.num_jobs = busy.used_slots = 1;
  CHECK(hand_out(jobs, {busy}).empty());
  const auto grants = hand_out(jobs, {cpu()});
  REQUIRE(grants.size() == 1);
  CHECK(grants[0].job == 0);
  WorkerLoad alone = cpu();
  alone.num_jobs = alone.used_slots = 1;
  alone.runs_alone = true;
  CHECK(hand_out({demand(0.1, 9)}, {alone}).empty());
}

TEST_CASE("what a failure leads to") {
  using cli::kBadData;
  using cli::kInternal;
  using cli::kInterrupted;
  CHECK(judge(run_with(false, false, 0), kBadData, false) == Verdict::failed);
  CHECK(judge(run_with(true, false, 0), kBadData, false) == Verdict::failed);
  CHECK(judge(run_with(true, false, 9), kInternal, false) == Verdict::again_alone);  // whose fault was it?
  CHECK(judge(run_with(false, false, 0), kInternal, false) == Verdict::again_alone);
  CHECK(judge(run_with(false, false, 1), kInternal, false) == Verdict::failed);
  CHECK(judge(run_with(true, true, 1), kInterrupted, false) == Verdict::failed);  // too long: it is known by name
  CHECK(judge(run_with(true, false, 5), kInternal, true) == Verdict::again);
}

TEST_CASE("the table counts jobs through failures and repetitions") {
  JobTable table(false);
  for (int j = 0; j < 3; ++j) table.add({.line = 1, .out = "c" + std::to_string(j)}, 0);
  table.at(0).demand = table.at(1).demand = table.at(2).demand = Demand{};
  table.start({{.job = 0}, {.job = 2}}, 1);
  CHECK(table.counts().running == 2);
  REQUIRE(table.waiting().size() == 1);
  CHECK(table.waiting().front() == 1);
  table.requeue(2, true, true);
  CHECK(table.waiting().front() == 2);
  CHECK(table.at(2).demand->alone);
  CHECK(table.at(2).counted_failures == 1);
  table.succeed(0, {.id = 0, .out_bytes = 7});
  table.forget_finished();
  CHECK(table.runs().size() == 2);
  CHECK(table.at(1).job.out == "c1");
  table.refuse(1, {.id = 1, .exit_code = 65});
  table.start({{.job = 0}}, 4);
  table.fail(2, {.id = 2, .exit_code = 70});
  table.forget_finished();
  CHECK(table.runs().empty());
  CHECK(table.counts().total == 3);
  CHECK(table.counts().done == 1);
  CHECK(table.counts().failed == 2);
  CHECK(table.counts().out_bytes == 7);
  CHECK(table.counts().waiting + table.counts().running == 0);
}
