// One product on several GPUs: the same bytes as on one. If there is only one, it plays several.
#include <cuda_runtime_api.h>

#include <atomic>
#include <string>
#include <vector>

#include "base/records/errors.hpp"
#include "cuda/backend.hpp"
#include "cuda/device/errors.hpp"
#include "kernels/check.hpp"
#include "spmm/spmm.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
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

Options on_devices(const std::vector<int>& devices, const std::string& kernel = "auto") {
  Options options;
  options.devices = devices;
  options.kernel = kernel;
  options.force = true;
  return options;
}

std::string name_of(const std::vector<int>& devices) {
  std::string name = "devices";
  for (const int device : devices) name += " " + std::to_string(device);
  return name;
}

/// Pairs whose result fills many panels of little memory.
struct LargeCase {
  std::string name;
  BlockMatrix a;
  BlockMatrix b;
};

std::vector<LargeCase> large_cases() {
  std::vector<LargeCase> cases;
  cases.push_back(
      {"uniform", test::random_matrix(4096, 8, 60'000, 65'535, 1), test::random_matrix(4096, 8, 60'000, 65'535, 2)});
  cases.push_back(
      {"small elements", test::random_matrix(4096, 4, 200'000, 100, 3), test::random_matrix(4096, 4, 200'000, 100, 4)});
  LargeCase skewed{"one heavy row", test::random_matrix(8192, 8, 20'000, 65'535, 5),
                   test::random_matrix(8192, 8, 60'000, 65'535, 6)};
  for (BlockIndex& at : skewed.a.index) {
    if (at.j < 700) at.i = 17;
  }
  std::vector<bool> seen(1024 * 1024);  // no block twice
  BlockMatrix kept{.n = 8192, .m = 8, .index = {}, .values = {}};
  for (std::size_t x = 0; x < skewed.a.index.size(); ++x) {
    const BlockIndex at = skewed.a.index[x];
    if (seen[std::size_t{at.i} * 1024 + at.j]) continue;
    seen[std::size_t{at.i} * 1024 + at.j] = true;
    kept.index.push_back(at);
    kept.values.insert(kept.values.end(), skewed.a.block(x), skewed.a.block(x) + 64);
  }
  skewed.a = kept;
  cases.push_back(std::move(skewed));
  return cases;
}

}  // namespace

/// Shares add up to the product.
void check_shares(const Report& report, std::size_t num_devices_used) {
  const std::vector<DeviceShare>& shares = report.plan.devices;
  REQUIRE(shares.size() == num_devices_used);
  std::uint64_t pairs = 0;
  std::uint64_t blocks = 0;
  for (const DeviceShare& share : shares) {
    CHECK(share.num_panels > 0);
    CHECK(share.multiply_s > 0);
    pairs += share.pairs;
    blocks += share.num_blocks;
  }
  CHECK(pairs == report.pairs);
  CHECK(blocks == report.c_blocks);
  CHECK(report.device.find(" x ") != std::string::npos);
}

TEST_CASE("devices: files hold the bytes of one device, whatever the panels") {
  constexpr std::uint64_t kLimits[] = {std::uint64_t{1} << 30, std::uint64_t{300} << 20};
  const test::TemporaryFolder folder;
  const auto path = [&](const std::string& name) { return folder / name; };
  for (const LargeCase& one : large_cases()) {
    write_matrix(path("a.bin"), one.a);
    write_matrix(path("b.bin"), one.b);
    for (const std::string kernel : {"auto", "two-pointer"}) {
      Options alone = on_devices({0}, kernel);
      alone.memory_limit_bytes = kLimits[0];
      multiply(path("a.bin"), path("b.bin"), path("one.bin"), alone);
      for (const std::vector<int>& devices : device_lists()) {
        for (const std::uint64_t limit : kLimits) {
          if (kernel != "auto" && limit != kLimits[0]) continue;
          INFO(one.name << ", " << kernel << ", " << name_of(devices) << ", limit " << limit);
          Options several = on_devices(devices, kernel);
          several.memory_limit_bytes = limit;
          several.verify_blocks = limit == kLimits[0] ? 0 : 20;  // verification takes records in order
          const Report report = multiply(path("a.bin"), path("b.bin"), path("several.bin"), several);
          REQUIRE((test::bytes_of(path("several.bin")) == test::bytes_of(path("one.bin"))));
          if (report.plan.num_a_slabs > 1) continue;
          check_shares(report,
                       devices.front() == kAllDevices ? static_cast<std::size_t>(num_devices()) : devices.size());
        }
      }
    }
  }
}

TEST_CASE("devices: no rows for one device, and no output at all") {
  const BlockMatrix one_block = test::random_matrix(8, 8, 1, 65'535, 1);
  const BlockMatrix empty{.n = 8, .m = 8, .index = {}, .values = {}};
  for (const std::vector<int>& devices : device_lists()) {
    Report report;
    CHECK(
        (multiply(one_block, one_block, on_devices(devices), &report) == test::oracle_multiply(one_block, one_block)));
    CHECK(report.plan.devices.back().num_panels == 0);
    CHECK(multiply(one_block, empty, on_devices(devices)).index.empty());
    CHECK(multiply(empty, empty, on_devices(devices)).index.empty());
  }
}

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
