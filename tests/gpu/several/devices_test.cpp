// One product on several GPUs: errors, cancellation, the current device. If there is only one, it plays several.
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "base/records/errors.hpp"
#include "cuda/backend.hpp"
#include "cuda/device/context.hpp"
#include "kernels/check.hpp"
#include "spmm/spmm.hpp"
#include "support/catch.hpp"
#include "support/chain_cases.hpp"
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

/// Products of host arrays, C's blocks given or not, have the bits of the CPU, and each device has a share.
template <class T>
void check_host_arrays(std::uint64_t seed) {
  test::Random random(seed);
  const std::uint32_t m = test::random_side(random);
  INFO(element_name(kElementType<T>) << ", seed " << seed << ", side " << m);
  const auto [a, b] = test::random_operands<T>(m, 300'000, random);
  const auto of_a = test::arrays_of(a, test::order_of(a.at, seed % 2 == 0, random));
  const auto of_b = test::arrays_of(b, test::order_of(b.at, seed % 2 == 0, random));
  const test::GivenResult<T> given = test::random_result(a, b, seed % 3 == 0, random);
  const auto old = test::arrays_of(given, m);
  const auto view = old.view();
  const Accumulation<ProductOf<T>> onto{.c = &view,
                                        .is_mask = seed % 3 != 0,
                                        .alpha = static_cast<ProductOf<T>>(given.alpha),
                                        .beta = static_cast<ProductOf<T>>(given.beta)};
  const auto wanted = test::given_oracle(a, b, given);
  ProductOptions some_rows;
  some_rows.rows = {.first = a.at.rows / 3, .end = a.at.rows - a.at.rows / 4};
  Engine cpu;
  const auto expected = cpu.multiply(of_a.view(), of_b.view(), some_rows);
  for (const std::vector<int>& devices : device_lists()) {
    INFO(name_of(devices));
    Engine engine(on_devices(devices));
    Report report;
    CHECK(test::has_bits(engine.multiply(of_a.view(), of_b.view(), {}, &report, onto), wanted));
    std::uint64_t num_pairs = 0;
    std::uint64_t num_blocks = 0;
    for (const DeviceShare& share : report.plan.devices) {
      num_pairs += share.pairs;
      num_blocks += share.num_blocks;
    }
    CHECK(report.plan.devices.size() == (devices.front() == kAllDevices ? std::size_t(num_devices()) : devices.size()));
    CHECK(num_pairs == report.pairs);
    CHECK(num_blocks == report.c_blocks);
    if (kElementType<T> == ElementType::u16) continue;  // has kernels of its own
    CHECK(test::is_product(engine.multiply(of_a.view(), of_b.view()), a, b));
    const auto c = engine.multiply(of_a.view(), of_b.view(), some_rows);
    CHECK(c.indptr == expected.indptr);
    CHECK(c.indices == expected.indices);
    CHECK(std::memcmp(c.data.data(), expected.data.data(), c.data.size() * sizeof c.data[0]) == 0);
  }
}

}  // namespace

#define SPMM_TEST_TYPE(T, name)                                                \
  TEST_CASE("devices: host arrays of all types share rows of A: " #name) {     \
    for (std::uint64_t seed = 0; seed < 6; ++seed) check_host_arrays<T>(seed); \
  }
SPMM_ELEMENT_TYPES(SPMM_TEST_TYPE)
#undef SPMM_TEST_TYPE

TEST_CASE("devices: what is wrong with host arrays is said as one device says it") {
  constexpr std::uint32_t kRows = 40;
  BsrMatrix<float> good{.rows = kRows, .cols = kRows, .m = 1, .indptr = {0}};
  for (std::uint32_t row = 0; row < kRows; ++row) {
    for (const std::int64_t column : {0, 7, 9}) good.indices.push_back(column);
    good.indptr.push_back(static_cast<std::int64_t>(good.indices.size()));
  }
  good.data.assign(good.indices.size(), 1);
  BsrMatrix<float> twice = good;
  twice.indices[3 * 35 + 1] = 0;
  BsrMatrix<float> lacks = good;  // row 35 of the product
  lacks.indices[3 * 35 + 1] = 8;
  const auto view = lacks.view();
  for (const std::vector<int>& devices : device_lists()) {
    INFO(name_of(devices));
    Engine engine(on_devices(devices));
    for (int i = 0; i < 3; ++i) {
      CHECK(test::message_of<FormatError>([&] { engine.multiply(twice.view(), good.view()); }).find("indices[106]") !=
            std::string::npos);
      CHECK(test::message_of<ShapeError>([&] {
              engine.multiply(good.view(), good.view(), {}, nullptr, {.c = &view});
            }).find("35") != std::string::npos);
      const std::atomic<bool> cancel{true};
      ProductOptions cancelled;
      cancelled.cancel = &cancel;
      CHECK_THROWS_AS(engine.multiply(good.view(), good.view(), cancelled), Interrupted);
      CHECK(engine.multiply(good.view(), good.view()).data == std::vector<float>(good.indices.size(), 3));
    }
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
