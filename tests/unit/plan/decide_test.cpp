// decide(): one registry, one function, equal inputs give equal executions.
#include <cstdint>
#include <set>
#include <string>

#include "kernels/tuning.hpp"
#include "plan/choice.hpp"
#include "plan/registry.hpp"
#include "spmm/error.hpp"
#include "spmm/multiply.hpp"
#include "support/catch.hpp"
#include "unit/plan/plan_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;

}  // namespace

TEST_CASE("every kernel has one registry row with what its backend needs to decide") {
  std::set<std::string_view> names;
  for (const plan::KernelRow& row : plan::registry()) {
    INFO(row.name);
    CHECK(names.insert(row.name).second);
    CHECK(plan::kernel_named(row.name) == &row);
    CHECK_FALSE(row.summary.empty());
    CHECK((row.host_bytes != nullptr) == (row.backend == Backend::cpu));
  }
  CHECK(names.size() == 13);
  CHECK(plan::kernel_named("two_pointer") == nullptr);
  CHECK(plan::kernel_named("") == nullptr);
  CHECK_THROWS_AS(plan::row_of(""), std::logic_error);
  for (const KernelInfo& kernel : kernel_names()) CHECK(plan::kernel_named(kernel.name) != nullptr);
}

TEST_CASE("each kernel that is named is decided for, or refused as data") {
  const plan::Counts s = evenly_spread(8192, 8, 100'000);
  for (const plan::KernelRow& row : plan::registry()) {
    plan::Limits limits = large_machine();
    limits.kernel = &row;
    const plan::Choice e = plan::decide(s, limits);
    INFO(row.name);
    if (row.max_side != 0 && row.max_side < s.m()) {
      CHECK(e.refusal.kind == plan::Refusal::Kind::usage);
      continue;
    }
    CHECK_FALSE(e.is_refused());
    CHECK(e.kernel == row.name);
    CHECK(e.backend == row.backend);
    CHECK(e.host_need_bytes <= limits.host_bytes);
    CHECK(e.predicted_s > 0);
    limits.host_bytes = 1000;
    const plan::Choice none = plan::decide(s, limits);  // does not throw
    CHECK(none.refusal.lacks_memory());
    CHECK_THROWS_AS(plan::throw_if_refused(none), OutOfMemory);
  }
}

TEST_CASE("what a kernel needs is asked of the machine") {
  const plan::Counts s = evenly_spread(8192, 8, 100'000);
  plan::Limits limits = large_machine();
  limits.gpus[0].has_dense_tensor = false;
  limits.kernel = plan::kernel_named("dense-tensor");
  CHECK_THROWS_AS(plan::throw_if_refused(plan::decide(s, limits)), DeviceError);
  limits.kernel = nullptr;
  limits.backend = Backend::cuda;
  limits.gpus.clear();
  CHECK_THROWS_AS(plan::throw_if_refused(plan::decide(s, limits)), DeviceError);
  limits.backend = Backend::automatic;
  limits.why_no_gpu = "no CUDA device";
  const plan::Choice e = plan::decide(s, limits);
  CHECK(e.backend == Backend::cpu);
  CHECK(e.kernel == "row-merge");
  CHECK(e.why_backend == "no CUDA device");
}

TEST_CASE("the kernel follows density, device and memory") {
  const plan::Limits machine = large_machine();
  const auto best = [](const plan::Counts& s, const plan::Limits& limits) { return plan::decide(s, limits).kernel; };
  CHECK(best(evenly_spread(8'192, 8, 1e5, 2047), machine) == "rows");
  CHECK(best(counted(evenly_spread(8'192, 8, 1e5, 65'535)), machine) == "rows");  // some C blocks have one pair
  CHECK(best(evenly_spread(32'768, 4, 1e6, 2047), machine) == "rows");
  CHECK(best(evenly_spread(1'048'576, 8, 1e6), machine) == "rows");
  const plan::Counts dense = evenly_spread(32'768, 8, 8.8e6, 2047);
  CHECK(best(dense, machine) == "dense-tensor");
  plan::Limits other_device = machine;
  other_device.gpus[0].has_dense_tensor = false;
  CHECK(best(dense, other_device) == "rows");
  const std::uint64_t operands = plan::operand_device_bytes(dense.a, dense.b, 8).resident;
  plan::Limits little = machine;
  little.gpus[0].bytes = operands + (std::uint64_t{2} << 30);  // B by groups of block columns, anew for every panel
  const plan::Choice in_groups = plan::decide(counted(dense), little);
  CHECK(in_groups.kernel == "dense-tensor");
  CHECK(in_groups.dense_columns < dense.nb());
  CHECK(in_groups.device_need_bytes <= little.gpus[0].bytes);
  little.gpus[0].bytes = plan::operand_device_bytes(dense.a, dense.b, 8).build_peak;
  CHECK(plan::decide(counted(dense), little).device_need_bytes <= little.gpus[0].bytes);
}

TEST_CASE("dense-tensor takes two byte planes where a third one does not fit, and no third one beyond fourteen bits") {
  plan::Limits limits = large_machine();
  limits.kernel = plan::kernel_named("dense-tensor");
  const auto planes = [&](std::uint32_t max_element) {
    return plan::decide(counted(evenly_spread(32'768, 8, 1e6, max_element)), limits).num_planes;
  };
  CHECK(planes(255) == 1);
  CHECK(planes(256) == 3);
  CHECK(planes(16'383) == 3);
  CHECK(planes(16'384) == 2);
  const auto shape = [&](std::uint32_t max_element) {
    const plan::Counts s = counted(evenly_spread(32'768, 8, 1e4, max_element));
    return plan::need(plan::row_of("dense-tensor"), s, limits);
  };
  std::uint64_t too_little = 0;
  for (std::uint64_t enough = std::uint64_t{1} << 30; enough - too_little > 1;) {  // the least within which it runs
    limits.gpus[0].bytes = too_little + (enough - too_little) / 2;
    (shape(1000).is_refused() ? too_little : enough) = limits.gpus[0].bytes;
  }
  limits.gpus[0].bytes = too_little + 1;
  CHECK(shape(1000).num_planes == 2);
  CHECK(shape(1000).device_need_bytes <= limits.gpus[0].bytes);
  limits.gpus[0].bytes = std::uint64_t{1} << 30;
  CHECK(shape(1000).num_planes == 3);
}

TEST_CASE("runs of rows that are too coarse for panels are asked for row by row") {
  const plan::Counts coarse = counted(evenly_spread(1'048'576, 8, 1e6), 8);
  plan::Limits limits = large_machine();
  CHECK_FALSE(plan::decide(coarse, limits).wants_row_counts);
  limits.kernel = plan::kernel_named("row-spread");  // never lists: panels end between rows
  CHECK(plan::decide(coarse, limits).wants_row_counts);
  CHECK(plan::decide(coarse, limits).panels.empty());
  CHECK_FALSE(plan::decide(counted(evenly_spread(1'048'576, 8, 1e6)), limits).wants_row_counts);
  limits.kernel = nullptr;
  plan::Counts heavy = coarse;
  const std::uint64_t panel = plan::decide(coarse, limits).max_c_blocks;
  for (std::size_t x = 1; x < heavy.row_pairs.offsets.size(); ++x) heavy.row_pairs.offsets[x] += panel / 8 + 1;
  CHECK(plan::decide(heavy, limits).wants_row_counts);
}

TEST_CASE("host-driven is refused where it would launch for minutes, unless forced") {
  plan::Limits limits = large_machine();
  limits.kernel = plan::kernel_named("host-driven");
  plan::Counts s = counted(evenly_spread(8'192, 8, 1e5));
  CHECK_FALSE(plan::decide(s, limits).is_refused());  // block columns of B are not counted yet
  s.b_columns = s.nb();
  CHECK(plan::decide(s, limits).refusal.kind == plan::Refusal::Kind::usage);
  limits.force = true;
  CHECK_FALSE(plan::decide(s, limits).is_refused());
}

TEST_CASE("the ring of pinned buffers takes what the host has, to the byte") {
  const plan::Counts s = evenly_spread(8'192, 8, 1e5);
  plan::Limits limits = large_machine();
  const auto buffers = [&](std::uint64_t host_bytes) {
    limits.host_bytes = host_bytes;
    const plan::Choice e = plan::decide(s, limits);
    return e.is_refused() || e.is_out_of_core() ? 0 : e.num_buffers;
  };
  constexpr std::uint64_t kSlot = kernels::kRingSlotBytes;
  CHECK(buffers(100 * kSlot) == kernels::kNumRingSlots);
  CHECK(buffers(kernels::kNumRingSlots * kSlot) == kernels::kNumRingSlots);
  CHECK(buffers(kernels::kNumRingSlots * kSlot - 1) == kernels::kNumRingSlots - 1);
  CHECK(buffers(kSlot) == 1);
  CHECK(buffers(kSlot - 1) == 0);
}

TEST_CASE("without a wish the backend is taken that ends first") {
  const auto open_machine = [] {
    plan::Limits limits = large_machine();
    limits.backend = Backend::automatic;
    limits.num_threads = limits.num_cores = 16;
    limits.gpus[0].start_s = 0.35;
    return limits;
  };
  const auto backend = [&](const plan::Counts& s) { return plan::decide(s, open_machine()).backend; };
  CHECK(backend(evenly_spread(1'024, 8, 1e3)) == Backend::cpu);
  CHECK(backend(evenly_spread(8'192, 8, 1e5)) == Backend::cpu);
  CHECK(backend(evenly_spread(32'768, 8, 8.8e6)) == Backend::cuda);
  CHECK(backend(evenly_spread(32'768, 4, 3.3e7)) == Backend::cuda);

  const plan::Counts s = evenly_spread(8'192, 8, 1e5);
  plan::Limits limits = open_machine();
  const plan::Choice cold = plan::decide(s, limits);
  CHECK(cold.predicted_s == cold.cpu_s);
  CHECK(cold.cuda_s > 0.35);
  CHECK(cold.why_backend.find("on the CPU") < cold.why_backend.find("with CUDA"));
  limits.gpus[0].start_s = 0;  // it has been started
  const plan::Choice warm = plan::decide(s, limits);
  CHECK(warm.backend == Backend::cuda);
  CHECK(warm.predicted_s == warm.cuda_s);
  CHECK(warm.cuda_s + 0.35 == Approx(cold.cuda_s));
  CHECK(warm.cpu_s == cold.cpu_s);

  // What was predicted for the other backend is what it is predicted for by itself.
  limits.backend = Backend::cpu;
  CHECK(plan::decide(s, limits).predicted_s == cold.cpu_s);
  limits.backend = Backend::cuda;
  CHECK(plan::decide(s, limits).why_backend == "asked for");
  CHECK_FALSE(plan::decide(s, limits).gpu_failed);
  limits.gpu_failed = true;
  CHECK(plan::decide(s, limits).gpu_failed);
}

TEST_CASE("a backend on which the product does not fit is left to the other one") {
  const plan::Counts s = evenly_spread(8'192, 8, 1e5);
  plan::Limits limits = large_machine();
  limits.backend = Backend::automatic;
  limits.host_bytes = 1'000;
  CHECK(plan::decide(s, limits).refusal.kind == plan::Refusal::Kind::host_memory);
  limits = large_machine();
  limits.backend = Backend::automatic;
  limits.gpus[0].bytes = 1'000;
  const plan::Choice e = plan::decide(s, limits);
  CHECK(e.backend == Backend::cpu);
  CHECK(e.cuda_s == 0);
  CHECK(e.why_backend.find("does not fit with CUDA") != std::string::npos);
}

TEST_CASE("panels are as wide as B, not as the grid") {
  constexpr std::uint32_t kRows = 1000;
  constexpr std::uint32_t kPairs = 100'000;  // of a row: far more than it could list
  plan::Counts s = evenly_spread(8u << 20, 8, 1e7, 2047);
  s.exact = true;
  s.a_rows = kRows;
  s.row_pairs = {.num_rows = kRows, .max_row_pairs = kPairs};
  s.row_pairs.offsets.clear();
  for (std::uint64_t row = 0; row <= kRows; ++row) s.row_pairs.offsets.push_back(row * kPairs);
  s.num_pairs = static_cast<double>(kRows) * kPairs;
  plan::Limits limits = large_machine();
  limits.kernel = plan::kernel_named("row-spread");
  const plan::Choice wide = plan::decide(s, limits);
  CHECK(wide.panels.size() >= kRows / 4);
  s.c_columns_end = 64;
  const plan::Choice narrow = plan::decide(s, limits);
  REQUIRE(narrow.panels.size() == 1);
  CHECK(narrow.panels.front().num_columns == 64);
  CHECK(narrow.max_c_blocks >= std::uint64_t{kRows} * 64);
  CHECK(narrow.device_need_bytes <= wide.device_need_bytes);
}
