// Every call of the CUDA runtime fails in turn, once and from there on: a documented error or the right result, and the
// same engine multiplies again afterwards. SPMM_TEST_FAULTS=all runs every point, a number N that many times the quick
// selection, SPMM_TEST_FAULT_POINT="memory once 17" one alone.
#include <cuda_runtime_api.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <vector>

#include "gpu/faults/device_faults.hpp"
#include "kernels/check.hpp"
#include "spmm/spmm.hpp"
#include "support/catch.hpp"
#include "support/chain_cases.hpp"
#include "support/gpu_kernels.hpp"
#include "support/matrices.hpp"
#include "support/memory_stream.hpp"
#include "support/oracle.hpp"
#include "support/process.hpp"
#include "support/product_cases.hpp"
#include "support/wrapped_calls.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
namespace fs = std::filesystem;

constexpr unsigned kHangSeconds = 20;  // a product takes milliseconds
char current_point[160] = "";          // for the handler

void say_hang(int) {
  constexpr const char* kWords = "hangs: ";
  (void)!::write(STDERR_FILENO, kWords, std::strlen(kWords));
  (void)!::write(STDERR_FILENO, current_point, std::strlen(current_point));
  (void)!::write(STDERR_FILENO, "\n", 1);
  ::_exit(1);
}

/// While it lives, a hang ends the process with the name of the point.
class HangWatch {
 public:
  explicit HangWatch(const std::string& point) {
    std::strncpy(current_point, point.c_str(), sizeof current_point - 1);
    ::signal(SIGALRM, say_hang);
    ::alarm(kHangSeconds);
  }
  ~HangWatch() { ::alarm(0); }
  HangWatch(const HangWatch&) = delete;
  HangWatch& operator=(const HangWatch&) = delete;
};

/// A product that runs again and again. "" where its result is right, else what is wrong; may throw.
using Product = std::function<std::string()>;

struct Scenario {
  std::string name;
  Product product;
  std::function<std::string()> after_failure = [] { return ""; };  ///< what a failure has left that it should not have
  std::uint64_t quick = 4;                                         ///< points of a kind and mode in a quick run
};

std::vector<std::uint64_t> points_of(std::uint64_t calls, std::uint64_t quick) {
  const char* const wish = std::getenv("SPMM_TEST_FAULTS");
  const std::string factor = wish == nullptr ? "1" : wish;
  const std::uint64_t count = factor == "all" ? calls : std::min<std::uint64_t>(calls, quick * std::stoull(factor));
  std::vector<std::uint64_t> points;
  for (std::uint64_t p = 0; p < count; ++p) points.push_back(1 + (2 * p + 1) * calls / (2 * count));
  return points;
}

/// The product under a fault: "" for the right result or a documented error.
std::string end_under(const Scenario& scenario, const DeviceFault& fault) {
  arm(fault);
  std::string problem;
  try {
    problem = scenario.product();
    disarm();
  } catch (const Error& error) {  // OutOfMemory, DeviceError
    disarm();
    if (num_failed() == 0) problem = std::string("fails without a fault: ") + error.what();
    if (std::string(error.what()).find(": ") == std::string::npos) problem = "an error that names no place";
    if (problem.empty()) problem = scenario.after_failure();
  } catch (const CudaError& error) {
    disarm();
    if (num_failed() == 0) problem = std::string("fails without a fault: ") + error.what();
    if (problem.empty()) problem = scenario.after_failure();
  } catch (const std::exception& error) {
    disarm();
    problem = std::string("an error of no documented kind: ") + error.what();
  }
  return problem;
}

/// What is wrong with a point, or "".
std::string run_point(const Scenario& scenario, const DeviceFault& fault) {
  const HangWatch watch(scenario.name + ", " + text_of(fault));
  const std::string problem = end_under(scenario, fault);
  try {
    const std::string next = scenario.product();
    if (!next.empty()) return problem + " the next product: " + next;
  } catch (const std::exception& error) {
    return problem + " the next product fails: " + error.what();
  }
  return problem;
}

std::string only_point() {
  const char* const wish = std::getenv("SPMM_TEST_FAULT_POINT");
  return wish == nullptr ? "" : wish;
}

void run_scenario(const Scenario& scenario) {
  arm({});
  REQUIRE(scenario.product() == "");
  arm({});
  REQUIRE(scenario.product() == "");  // the second one counts: the first has started what stays
  std::array<std::uint64_t, kNumDeviceCalls> counts{};
  for (std::size_t k = 0; k < kNumDeviceCalls; ++k) counts[k] = num_calls(static_cast<WrappedCall>(k));
  std::uint64_t num_points = 0;
  std::uint64_t num_bad = 0;
  std::string bad;
  for (std::size_t k = 0; k < kNumDeviceCalls; ++k) {
    for (const bool from_here : {false, true}) {
      for (const std::uint64_t at : points_of(counts[k], scenario.quick)) {
        const DeviceFault fault{.kind = static_cast<WrappedCall>(k), .at = at, .from_here = from_here};
        if (const std::string only = only_point(); !only.empty() && only != text_of(fault)) continue;
        const std::string problem = run_point(scenario, fault);
        ++num_points;
        if (problem.empty()) continue;
        bad += "\n" + text_of(fault) + ": " + problem;
        ++num_bad;
      }
    }
  }
  INFO(scenario.name << bad);
  CHECK(num_bad == 0);
  WARN(scenario.name << ": " << num_points << " points, " << num_bad << " bad ends");
}

/// Three products at once on one engine: what spmm-batch does.
Scenario three_at_once(const TemporaryFolder& folder) {
  const auto engine = std::make_shared<Engine>();
  const ProductCase one = make_product_case(8, 60, 500, "auto");
  write_matrix(folder.file("a"), one.a);
  write_matrix(folder.file("b"), one.b);
  const ProductOptions options = on_gpu();
  return {.name = "three at once", .product = [engine, one, options, &folder]() -> std::string {
            std::vector<std::future<std::string>> products;
            for (const char* const name : {"c1", "c2", "c3"}) {
              products.push_back(std::async(std::launch::async, [&, name]() -> std::string {
                engine->multiply(folder.file("a"), folder.file("b"), folder.file(name), options);
                return read_product(folder.file(name)) == one.expected ? "" : "a wrong result";
              }));
            }
            std::string problem;
            std::exception_ptr error;
            for (auto& product : products) {
              try {
                problem += product.get();
              } catch (...) {
                error = std::current_exception();
              }
            }
            if (problem.empty() && error) std::rethrow_exception(error);
            return problem;
          }};
}

/// One product in memory on an engine that stays.
Scenario in_memory(const std::string& name, const ProductCase& one, const EngineOptions& shared,
                   const ProductOptions& options) {
  const auto engine = std::make_shared<Engine>(shared);
  return {.name = name, .product = [engine, one, options]() -> std::string {
            MemorySink sink(one.a.header());
            engine->multiply(MemorySource(one.a), MemorySource(one.b), sink, options);
            return sink.product() == one.expected ? "" : "a wrong result";
          }};
}

}  // namespace

TEST_CASE("device faults: a product in memory, every kernel") {
  run_scenario(in_memory("auto", make_product_case(4, 60, 400, "auto"), {}, on_gpu()));
  std::uint32_t m = 4;
  for (const std::string& kernel : kernels_here()) {
    const std::uint32_t side = side_for(kernel, m);
    Scenario scenario = in_memory(kernel, make_product_case(side, 200 / side, 600 / side, kernel), {}, on_gpu(kernel));
    scenario.quick = 2;
    run_scenario(scenario);
    m = m == 32 ? 4 : m * 2;
  }
}

TEST_CASE("device faults: an engine that has yet to start") {
  const ProductCase one = make_product_case(8, 30, 200, "auto");
  run_scenario({.name = "start", .product = [&]() -> std::string {
                  Engine engine;
                  MemorySink sink(one.a.header());
                  engine.multiply(MemorySource(one.a), MemorySource(one.b), sink, on_gpu());
                  return sink.product() == one.expected ? "" : "a wrong result";
                }});
}

TEST_CASE("device faults: arrays of floats") {
  Random random(1);
  const ChainPattern at = random_pattern(60, 60, 0.3, false, random);
  const auto matrix = random_chain_matrix<double>(at, 4, ChainValueKind::normal, random);
  const BsrMatrix<double> arrays = arrays_of(matrix, order_of(at, true, random));
  const auto wanted = chain_oracle(matrix, matrix);
  const ProductOptions options = on_gpu();
  may_list_device_twice = true;
  for (const std::vector<int>& devices : {std::vector<int>{}, std::vector<int>{0, 0}}) {
    EngineOptions shared;
    shared.devices = devices;
    const auto engine = std::make_shared<Engine>(shared);
    run_scenario({.name = devices.empty() ? "arrays of floats" : "arrays of floats, two devices",
                  .product = [&]() -> std::string {
                    const auto c = engine->multiply(arrays.view(), arrays.view(), options);
                    return has_bits(c, wanted) ? "" : "a wrong result";
                  }});
  }
}

TEST_CASE("device faults: panels in little memory, slabs, several devices, a proof") {
  const ProductCase many = make_product_case(64, 512, 900, "auto");
  for (const std::uint64_t megabytes : {100u, 72u}) {  // panels; slabs: see product_test.cpp
    EngineOptions little;
    little.memory_limit_bytes = megabytes << 20;
    Scenario scenario = in_memory(megabytes == 72 ? "slabs" : "panels", many, little, on_gpu());
    scenario.quick = 2;
    run_scenario(scenario);
  }
  may_list_device_twice = true;
  EngineOptions twice;
  twice.devices = {0, 0};
  run_scenario(in_memory("two devices", make_product_case(4, 200, 4000, "auto"), twice, on_gpu()));
  ProductOptions proven = on_gpu();
  proven.verify_full = true;
  ProductCase saturating{.a = random_matrix(1024, 8, 16000, 65535, 3),
                         .b = random_matrix(1024, 8, 16000, 65535, 4),
                         .kernel = "auto",
                         .expected = {}};
  saturating.expected = oracle_multiply(saturating.a, saturating.b);
  run_scenario(in_memory("proof", saturating, {}, proven));
}

TEST_CASE("device faults: products at once on one engine") {
  const TemporaryFolder folder;
  run_scenario(three_at_once(folder));
}

TEST_CASE("device faults: files") {
  const TemporaryFolder folder;
  const ProductCase one = make_product_case(8, 60, 500, "auto");
  write_matrix(folder.file("a"), one.a);
  write_matrix(folder.file("b"), one.b);
  const ProductMatrix old{.n = 8, .m = 8, .index = {}, .values = {}};
  Engine engine;
  const ProductOptions options = on_gpu();
  const auto names = [&] { return std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()); };
  run_scenario({.name = "files",
                .product = [&]() -> std::string {
                  write_product(folder.file("c"), old);
                  engine.multiply(folder.file("a"), folder.file("b"), folder.file("c"), options);
                  return read_product(folder.file("c")) == one.expected ? "" : "a wrong result";
                },
                .after_failure = [&]() -> std::string {
                  if (names() != 3) return "a name is left behind";
                  return read_product(folder.file("c")) == old ? "" : "the old output is gone";
                }});
}

TEST_CASE("device faults: memory comes back") {
  const auto free_bytes = [] {
    std::size_t free_now = 0;
    std::size_t total = 0;
    check(cudaMemGetInfo(&free_now, &total), "device memory");
    return free_now;
  };
  const ProductCase one = make_product_case(8, 200, 8000, "auto");
  const auto product = [&] {
    Engine engine;
    MemorySink sink(one.a.header());
    engine.multiply(MemorySource(one.a), MemorySource(one.b), sink, on_gpu());
  };
  arm({});
  product();
  arm({});
  product();
  const std::uint64_t num_allocations = num_calls(WrappedCall::memory);
  REQUIRE(num_allocations > 0);
  const std::size_t before = free_bytes();
  for (int round = 0; round < 4; ++round) {
    for (const std::uint64_t at : points_of(num_allocations, 8)) {
      arm({.kind = WrappedCall::memory, .at = at, .from_here = true});
      CHECK_THROWS_AS(product(), OutOfMemory);
      disarm();
    }
  }
  constexpr std::size_t kSlack = 8u << 20;
  CHECK(free_bytes() + kSlack >= before);
}
