// Many products on one engine and one GPU: at once, one after the other, in want of memory, after failures; and what
// the caller sees of it: nothing.
#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "base/records/errors.hpp"
#include "kernels/check.hpp"
#include "spmm/spmm.hpp"
#include "support/catch.hpp"
#include "support/gpu_kernels.hpp"
#include "support/memory_stream.hpp"
#include "support/product_cases.hpp"
#include "support/wrapped_calls.hpp"

namespace {

using namespace spmm;
using test::on_gpu;

/// Different shapes, every kernel of the GPU.
std::vector<test::ProductCase> make_cases() {
  std::vector<test::ProductCase> cases;
  std::uint32_t m = 4;
  for (const std::string& kernel : test::kernels_here()) {
    const std::uint32_t side = test::side_for(kernel, m);
    cases.push_back(test::make_product_case(side, 320 / side, 1200 / side, kernel));
    m = m == 32 ? 4 : m * 2;
  }
  cases.push_back(test::make_product_case(4, 500, 5000, "auto"));
  cases.push_back(test::make_product_case(8, 30, 900, "auto"));
  cases.push_back(test::make_product_case(5, 100, 2000, "auto"));
  cases.push_back(test::make_product_case(8, 30, 0, "auto"));
  return cases;
}

std::uint64_t free_device_bytes() {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "device memory");
  return free_bytes;
}

int current_device() {
  int device = -1;
  check(cudaGetDevice(&device), "device");
  return device;
}

int devices_here() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "devices");
  return count;
}

/// A matrix whose block number `bad` lies outside.
BlockMatrix with_bad_index(BlockMatrix matrix, std::size_t bad) {
  matrix.index[bad].j = matrix.n / matrix.m;
  return matrix;
}

/// Holds up the legacy default stream until it is told to go on, at most for a while.
class BlockedLegacyStream {
 public:
  BlockedLegacyStream() { check(cudaLaunchHostFunc(cudaStreamLegacy, &wait, this), "host function"); }
  ~BlockedLegacyStream() {
    go_on();
    (void)cudaStreamSynchronize(cudaStreamLegacy);
  }
  BlockedLegacyStream(const BlockedLegacyStream&) = delete;
  BlockedLegacyStream& operator=(const BlockedLegacyStream&) = delete;

  void go_on() {
    if (!told_.exchange(true)) go_.set_value();
  }
  [[nodiscard]] bool still_blocks() const { return !ended_; }

 private:
  static void wait(void* self) {
    auto& blocked = *static_cast<BlockedLegacyStream*>(self);
    blocked.go_.get_future().wait_for(std::chrono::seconds(20));
    blocked.ended_ = true;
  }

  std::promise<void> go_;
  std::atomic<bool> told_{false};
  std::atomic<bool> ended_{false};
};

}  // namespace

TEST_CASE("engine: concurrent products of different shapes and kernels give the bytes of single ones") {
  EngineOptions shared;
  shared.num_threads = 3;
  Engine engine(shared);
  const auto options_of = [](unsigned thread, std::size_t number, const test::ProductCase& one) {
    ProductOptions options = on_gpu(one.kernel);
    if (thread == 0 && number % 2 == 0) {  // the CPU at the same time
      options.backend = Backend::cpu;
      options.kernel = "auto";
    }
    return options;
  };
  for (const std::string& one : test::wrong_at_once(engine, make_cases(), options_of)) CHECK(one == "");
}

TEST_CASE("engine: the caller's device stays current, in its threads too") {
  const test::ProductCase one = test::make_product_case(8, 40, 300, "auto");
  const int count = devices_here();
  for (int device = 0; device < count; ++device) {
    EngineOptions shared;
    shared.device = device;
    Engine engine(shared);
    for (int callers = 0; callers < count; ++callers) {
      check(cudaSetDevice(callers), "choose device");
      REQUIRE((engine.multiply(one.a, one.b, on_gpu()) == one.expected));
      CHECK(current_device() == callers);
      // One that fails on the way.
      CHECK_THROWS_AS(engine.multiply(with_bad_index(one.a, 5), one.b, on_gpu()), FormatError);
      CHECK(current_device() == callers);
      CHECK(free_device_bytes() > 0);
    }
    int seen = -1;  // by a thread that has never chosen a device
    std::jthread([&] {
      (void)engine.multiply(one.a, one.b, on_gpu());
      seen = current_device();
    }).join();
    CHECK(seen == 0);
  }
  check(cudaSetDevice(0), "choose device");
}

TEST_CASE("engine: work of the caller on the legacy default stream is not waited for") {
  const test::ProductCase one = test::make_product_case(8, 40, 300, "auto");
  Engine engine;
  const std::vector<std::string> kernels = {"rows", "pair-list", "two-pointer", "dense-tiled"};
  for (const std::string& kernel : kernels) REQUIRE((engine.multiply(one.a, one.b, on_gpu(kernel)) == one.expected));
  for (const std::string& kernel : kernels) {
    INFO("kernel " << kernel);
    BlockedLegacyStream blocked;
    REQUIRE((engine.multiply(one.a, one.b, on_gpu(kernel)) == one.expected));
    CHECK(blocked.still_blocks());
  }
}

TEST_CASE("engine: a source that fails, a sink that drops its buffers, and too many blocks end the product") {
  const test::ProductCase one = test::make_product_case(8, 100, 3000, "auto");
  Engine engine;
  test::MemorySource broken(one.a);
  broken.on_read = [] { throw IoError("source", "is broken", "-"); };
  test::MemorySink sink(one.a.header());
  CHECK_THROWS_AS(engine.multiply(test::MemorySource(one.a), broken, sink, on_gpu()), IoError);
  test::DroppingSink dropping;
  CHECK_THROWS_AS(engine.multiply(test::MemorySource(one.a), test::MemorySource(one.b), dropping, on_gpu()), IoError);
  test::DroppingSink no_memory(true);
  CHECK_THROWS_AS(engine.multiply(test::MemorySource(one.a), test::MemorySource(one.b), no_memory, on_gpu()),
                  std::bad_alloc);
  test::most_output_blocks = one.expected.index.size() - 1;
  CHECK_THROWS_AS(engine.multiply(one.a, one.b, on_gpu()), OutOfMemory);
  test::most_output_blocks = test::kMostOutputBlocks;
  CHECK((engine.multiply(one.a, one.b, on_gpu()) == one.expected));
}

TEST_CASE("engine: a product that does not fit beside another one waits, plans as if alone, and can be cancelled") {
  const test::ProductCase one = test::make_product_case(8, 100, 3000, "rows");
  Report alone;
  multiply(one.a, one.b, {{}, on_gpu("rows")}, &alone);
  EngineOptions shared;
  shared.memory_limit_bytes = alone.plan.device_need_bytes * 3 / 2;  // room for one, not for two
  Engine engine(shared);

  test::GatedSink gated(one.a.header());
  std::jthread holds(
      [&] { engine.multiply(test::MemorySource(one.a), test::MemorySource(one.b), gated, on_gpu("rows")); });
  gated.wait_until_reached();
  std::atomic<bool> cancel{true};
  ProductOptions options = on_gpu("rows");
  options.cancel = &cancel;
  CHECK_THROWS_AS(engine.multiply(one.a, one.b, options), Interrupted);

  std::atomic<bool> done{false};
  Report report;
  ProductMatrix product;
  std::jthread waits([&] {
    product = engine.multiply(one.a, one.b, on_gpu("rows"), &report);
    done = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // long enough for one that does not wait
  CHECK_FALSE(done);
  gated.open();
  holds.join();
  waits.join();
  CHECK((product == one.expected));
  CHECK((gated.product() == one.expected));
  CHECK(report.plan.device_need_bytes == alone.plan.device_need_bytes);
}
