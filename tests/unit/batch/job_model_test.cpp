// What the scheduler believes of a job is what the library decides.
#include "tools/batch/schedule/model.hpp"

#include "plan/decide.hpp"
#include "support/catch.hpp"
#include "tools/batch/schedule/limits.hpp"

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

std::vector<PoolWorker> workers(std::initializer_list<std::pair<const char*, double>> kernels) {
  std::vector<PoolWorker> all(kernels.size());
  std::size_t w = 0;
  for (const auto& [name, kernel_s] : kernels) {
    all[w].name = name;
    all[w++].kernel_s = kernel_s;
  }
  return all;
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
  CHECK(tiny.cpu_bytes == on_cpu.host_need_bytes);
  CHECK(tiny.gpu_bytes == on_gpu.host_need_bytes);
  CHECK(model.gpu_start_s() > 0.05);
  const Demand large = model.demand_of(kLarge, {});
  CHECK(large.cpu_threads == kCores);
  CHECK(large.cpu_s == decided(kLarge, Backend::cpu, kCores, machine).predicted_s);
  CHECK(large.gpu_s < large.cpu_s);
  CHECK(large.kept_b_s > 0.01);  // reading gigabytes, and bringing them to the device
  CHECK(large.gpu_s > large.kept_a_s + large.kept_b_s);
  CHECK(large.cpu_bytes > 2'000'000'000);
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
  // What fits only in slabs takes everything.
  constexpr std::uint64_t kLittle = std::uint64_t{300} << 20;
  JobModel tight(batch_machine(kCores, kLittle, false), kCores, 0);
  CHECK(tight.demand_of(kLarge, {}).cpu_bytes == kLittle);
  CHECK(tight.gpu_start_s() == 0);
  // What fits nowhere goes to the worker, who says so; so does what cannot be read.
  JobModel hopeless(batch_machine(kCores, 100'000, false), kCores, 0);
  CHECK(hopeless.demand_of(kLarge, {}).cpu_s == 0);
  CHECK(hopeless.demand_of(kLarge, {}).cpu_bytes > 0);
  CHECK(model.demand_of(std::nullopt, {}).cpu_threads == 1);
  JobShape unlike = kTiny;
  unlike.b.n = 2048;
  CHECK(model.demand_of(unlike, {}).cpu_s == 0);
}

TEST_CASE("files or the busiest worker bind a run") {
  CHECK(write_bytes_per_s(0) == 4.5e9);
  CHECK(write_bytes_per_s(3) == Approx(12.1e9));
  CHECK(write_bytes_per_s(16) == 39e9);
  CHECK(write_bytes_per_s(500) == 39e9);
  CHECK(read_bytes_per_s(1) == 9.5e9);
  JobCounts counts;
  counts.done = 2;
  counts.in_bytes = 9'500'000'000;
  counts.out_bytes = 9'000'000'000;
  const RunLimit files = limit_of(counts, workers({{"cpu", 0.5}, {"gpu0", 2.5}}), 1, 6);
  CHECK(files.resource == "files");
  CHECK(files.files_s == Approx(3));
  CHECK(files.kernels_s == 2.5);
  CHECK(files.share == Approx(0.5));
  const RunLimit kernels = limit_of(counts, workers({{"cpu", 4}, {"gpu0", 5}}), 1, 10);
  CHECK(kernels.resource == "gpu0");
  CHECK(kernels.share == Approx(0.5));
  CHECK(limit_of({}, workers({{"cpu", 4}}), 1, 10).resource.empty());
}
