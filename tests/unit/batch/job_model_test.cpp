// What the scheduler believes of a job is what the library decides.
#include "tools/batch/schedule/model.hpp"

#include "plan/decide.hpp"
#include "support/catch.hpp"

namespace {

using namespace spmm;
using namespace spmm::batch;

constexpr unsigned kCores = 16;
constexpr std::uint64_t kMemoryBytes = std::uint64_t{64} << 30;

JobShape shape(std::uint32_t n, std::uint32_t m, std::uint32_t num_blocks) {
  const MatrixHeader header{.n = n, .m = m, .num_blocks = num_blocks};
  return {.a = header, .b = header};
}

const JobShape kTiny = shape(1024, 8, 1000);
const JobShape kLarge = shape(32768, 8, 8'800'000);

plan::Execution decided(const JobShape& job, Backend backend, unsigned threads, const plan::Machine& machine) {
  plan::Limits limits = plan::limits_of(machine, threads);
  limits.backend = backend;
  return plan::decide(plan::expected_statistics(job.a, job.b), limits);
}

}  // namespace

TEST_CASE("a job's demand is the library's decision") {
  const plan::Machine machine = batch_machine(kCores, kMemoryBytes, true);
  JobModel model(machine, kCores, kCores);
  const Demand tiny = model.demand_of(kTiny, {});
  const plan::Execution on_cpu = decided(kTiny, Backend::cpu, 1, machine);
  const plan::Execution on_gpu = decided(kTiny, Backend::cuda, kCores, machine);
  CHECK(tiny.cpu_s == on_cpu.predicted_s);
  CHECK(tiny.gpu_s == on_gpu.predicted_s);  // in a worker that has started
  CHECK(tiny.cpu_threads == 1);
  CHECK(model.gpu_start_s() > 0.05);
  const Demand large = model.demand_of(kLarge, {});
  CHECK(large.cpu_threads == kCores);
  CHECK(large.cpu_s == decided(kLarge, Backend::cpu, kCores, machine).predicted_s);
  CHECK(large.gpu_s < large.cpu_s);
}

TEST_CASE("options and limits of a job reach its decision") {
  const plan::Machine machine = batch_machine(kCores, kMemoryBytes, true);
  JobModel model(machine, kCores, kCores);
  JobOptions options;
  options.backend = Backend::cpu;
  options.kernel = "reference";
  CHECK(model.demand_of(kTiny, options).cpu_s > 2 * model.demand_of(kTiny, {}).cpu_s);
  CHECK(model.demand_of(kTiny, options).backend == Backend::cpu);
  CHECK(model.demand_of(kTiny, {}).backend == Backend::automatic);  // not the other's remembered answer
  CHECK(JobModel(batch_machine(kCores, kMemoryBytes, false), kCores, 0).gpu_start_s() == 0);
  // What fits nowhere goes to the worker, who says so; so does what cannot be read.
  JobModel hopeless(batch_machine(kCores, 100'000, false), kCores, 0);
  CHECK(hopeless.demand_of(kLarge, {}).cpu_s == 0);
  CHECK(model.demand_of(std::nullopt, {}).cpu_threads == 1);
  JobShape unlike = kTiny;
  unlike.b.n = 2048;
  CHECK(model.demand_of(unlike, {}).cpu_s == 0);
}
