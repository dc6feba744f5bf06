// One product on several GPUs: errors, cancellation, the current device. If there is only one, it plays several.
#include <cuda_runtime_api.h>

#include <atomic>
#include <string>
#include <vector>

#include "base/records/errors.hpp"
#include "cuda/backend.hpp"
#include "cuda/device/context.hpp"
#include "kernels/check.hpp"
#include "spmm/spmm.hpp"
#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "support/memory_stream.hpp"
#include "support/product_cases.hpp"
#include "support/wrapped_calls.hpp"

namespace {

using namespace spmm;

int num_devices() {
  int count = 0;
  spmm::check(cudaGetDeviceCount(&count), "devices");
  return count;
}

/// One device twice and three times, and all that there are where these are several.
std::vector<std::vector<int>> device_lists() {
  test::may_list_device_twice = true;
  std::vector<std::vector<int>> lists = {{0, 0}, {0, 0, 0}};
  if (num_devices() > 1) {
    lists.push_back({0, 1});
    lists.push_back({kAllDevices});
  } else {
    WARN("one GPU: it plays several");
  }
  return lists;
}

Options on_devices(const std::vector<int>& devices) {
  Options options;
  options.devices = devices;
  return options;
}

std::string name_of(const std::vector<int>& devices) {
  std::string name = "devices";
  for (const int device : devices) name += " " + std::to_string(device);
  return name;
}

}  // namespace

TEST_CASE("devices: what is wrong is said once, and the engine goes on") {
  const test::ProductCase good = test::make_product_case(8, 100, 3000, "auto");
  BlockMatrix outside = good.a;
  outside.index[123].j = outside.n / outside.m;
  BlockMatrix twice = good.a;
  twice.index[200] = twice.index[17];
  for (const std::vector<int>& devices : device_lists()) {
    INFO(name_of(devices));
    EngineOptions shared;
    shared.devices = devices;
    Engine engine(shared);
    for (int i = 0; i < 3; ++i) {
      CHECK_THROWS_AS(engine.multiply(outside, good.b), FormatError);
      CHECK_THROWS_AS(engine.multiply(good.a, twice), FormatError);
      test::MemorySource broken(good.a);
      broken.on_read = [] { throw IoError("source", "is broken", "-"); };
      test::MemorySink sink(good.a.header());
      CHECK_THROWS_AS(engine.multiply(test::MemorySource(good.a), broken, sink), IoError);
      test::DroppingSink dropping;
      CHECK_THROWS_AS(engine.multiply(test::MemorySource(good.a), test::MemorySource(good.b), dropping), IoError);
      test::most_output_blocks = good.expected.index.size() - 1;
      CHECK_THROWS_AS(engine.multiply(good.a, good.b), OutOfMemory);
      test::most_output_blocks = test::kMostOutputBlocks;
      const std::atomic<bool> cancel{true};
      ProductOptions cancelled;
      cancelled.cancel = &cancel;
      CHECK_THROWS_AS(engine.multiply(good.a, good.b, cancelled), Interrupted);
      CHECK((engine.multiply(good.a, good.b) == good.expected));
    }
  }
}

TEST_CASE("devices: a product cancelled in the middle ends soon") {
  const BlockMatrix a = test::random_matrix(8192, 8, 100'000, 65'535, 1);
  const BlockMatrix b = test::random_matrix(8192, 8, 100'000, 65'535, 2);
  for (const std::vector<int>& devices : device_lists()) {
    Options options = on_devices(devices);
    options.memory_limit_bytes = std::uint64_t{300} << 20;
    std::atomic<bool> cancel{false};
    options.cancel = &cancel;
    options.on_progress = [&](Stage stage, std::uint64_t, std::uint64_t) {
      if (stage == Stage::multiply) cancel = true;
    };
    CHECK_THROWS_AS(multiply(a, b, options), Interrupted);
  }
}

TEST_CASE("devices: the caller's device stays current") {
  const test::ProductCase one = test::make_product_case(8, 40, 300, "auto");
  for (int device = 0; device < num_devices(); ++device) {
    spmm::check(cudaSetDevice(device), "choose device");
    for (const std::vector<int>& devices : device_lists()) {
      CHECK((multiply(one.a, one.b, on_devices(devices)) == one.expected));
      int current = -1;
      spmm::check(cudaGetDevice(&current), "device");
      CHECK(current == device);
    }
  }
  spmm::check(cudaSetDevice(0), "choose device");
}

TEST_CASE("devices: one that is absent, or listed twice, is an error of usage") {
  const BlockMatrix a = test::random_matrix(8, 8, 1, 9, 1);
  CHECK_THROWS_AS(multiply(a, a, on_devices({0, num_devices()})), UsageError);
  test::may_list_device_twice = false;
  CHECK_THROWS_AS(multiply(a, a, on_devices({0, 0})), UsageError);
  CHECK((multiply(a, a, on_devices({0})) == test::oracle_multiply(a, a)));
}
