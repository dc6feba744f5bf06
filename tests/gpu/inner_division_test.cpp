// One product in parts of its inner dimension on several GPUs: the same bytes as on one. Where there is only one, it
// plays several (a hook of the engine).
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/check.hpp"
#include "spmm/spmm.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/memory_stream.hpp"
#include "support/oracle.hpp"
#include "support/product_cases.hpp"

namespace {

using namespace spmm;

/// The division that a test asks for, while it lives.
struct Wish {
  explicit Wish(const char* division) {
    ::setenv("SPMM_TEST_SAME_DEVICE_TWICE", "1", 1);
    ::setenv("SPMM_TEST_DIVISION", division, 1);
  }
  ~Wish() { ::unsetenv("SPMM_TEST_DIVISION"); }
  Wish(const Wish&) = delete;
  Wish& operator=(const Wish&) = delete;
};

std::vector<std::vector<int>> device_lists() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "devices");
  std::vector<std::vector<int>> lists = {{0, 0}, {0, 0, 0}};
  if (count > 1) lists.push_back({kAllDevices});
  return lists;
}

EngineOptions on_devices(const std::vector<int>& devices) {
  EngineOptions options;
  options.devices = devices;
  return options;
}

/// A and B of `rows` x `inner` and `inner` x `rows` blocks within n x n.
test::Operands gram_like(std::uint32_t m, std::uint32_t rows, std::uint32_t inner, std::uint32_t max_value) {
  test::Operands both;
  const auto fill = [&](BlockMatrix& to, bool is_b, std::uint64_t seed) {
    const BlockMatrix values = test::random_matrix(inner * m, m, rows * 40, max_value, seed);
    to = BlockMatrix{.n = inner * m, .m = m, .index = {}, .values = {}};
    std::vector<bool> seen(std::size_t{rows} * inner);
    for (std::size_t x = 0; x < values.index.size(); ++x) {
      const std::uint32_t row = values.index[x].i % rows;
      if (seen[std::size_t{row} * inner + values.index[x].j]) continue;
      seen[std::size_t{row} * inner + values.index[x].j] = true;
      to.index.push_back(is_b ? BlockIndex{values.index[x].j, row} : BlockIndex{row, values.index[x].j});
      to.values.insert(to.values.end(), values.block(x), values.block(x) + std::size_t{m} * m);
    }
  };
  fill(both.first, false, 1);
  fill(both.second, true, 2);
  return both;
}

/// Records that a sample, which reads few at a time, finds in one block row.
class MisleadingSource : public test::MemorySource {
 public:
  using MemorySource::MemorySource;
  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override {
    MemorySource::read(first, count, dst);
    constexpr std::uint64_t kMostOfSample = 16;
    if (count > kMostOfSample) return;
    for (std::uint64_t x = 0; x < count; ++x) {
      const std::uint32_t row = 0;
      std::memcpy(dst + x * input_record_bytes(header().m), &row, sizeof row);
    }
  }
};

}  // namespace

TEST_CASE("inner division: the battery gives the oracle's product") {
  const Wish wish("inner");
  for (const std::vector<int>& devices : device_lists()) {
    Engine engine(on_devices(devices));
    for (const test::Recipe& recipe : test::battery()) {
      for (const std::uint32_t m : {1u, 4u, 8u, 16u, 31u}) {
        const test::Operands operands = recipe.make(m, 1);
        INFO(recipe.name << ", m " << m << ", " << devices.size() << " devices");
        Report report;
        const ProductMatrix product = engine.multiply(operands.first, operands.second, {}, &report);
        REQUIRE((product == test::oracle_multiply(operands.first, operands.second)));
        CHECK(report.plan.inner_division);
      }
    }
  }
}

TEST_CASE("inner division: few rows, saturated or not, in memory and through streams") {
  for (const std::uint32_t max_value : {100u, 65'535u}) {
    const test::Operands operands = gram_like(8, 12, 4000, max_value);
    ProductMatrix expected;
    {
      const Wish wish("rows");
      expected = Engine(on_devices({0, 0})).multiply(operands.first, operands.second);
    }
    REQUIRE((expected == test::oracle_multiply(operands.first, operands.second)));
    const Wish wish("inner");
    for (const std::vector<int>& devices : device_lists()) {
      Engine engine(on_devices(devices));
      Report report;
      ProductOptions verified;
      verified.verify_blocks = 20;
      CHECK((engine.multiply(operands.first, operands.second, verified, &report) == expected));
      CHECK(report.plan.inner_division);
      CHECK(report.c_blocks == expected.index.size());
      std::uint64_t pairs = 0;
      for (const DeviceShare& share : report.plan.devices) {
        CHECK(share.pairs > report.pairs / (report.plan.devices.size() + 1));  // parts are of about the same size
        pairs += share.pairs;
      }
      CHECK(pairs == report.pairs);
      test::MemorySink sink(operands.first.header(), 3);
      engine.multiply(test::MemorySource(operands.first), test::MemorySource(operands.second), sink);
      CHECK((sink.product() == expected));
    }
  }
}

TEST_CASE("inner division: a device without records, and no result at all") {
  const Wish wish("inner");
  BlockMatrix a = test::random_matrix(64, 8, 8, 65'535, 1);
  for (std::uint32_t x = 0; x < a.index.size(); ++x) a.index[x] = {x, 5};
  BlockMatrix b = a;
  for (std::uint32_t x = 0; x < b.index.size(); ++x) b.index[x] = {5, x};
  const BlockMatrix empty{.n = 64, .m = 8, .index = {}, .values = {}};
  for (const std::vector<int>& devices : device_lists()) {
    Engine engine(on_devices(devices));
    Report report;
    CHECK((engine.multiply(a, b, {}, &report) == test::oracle_multiply(a, b)));
    CHECK(report.plan.inner_division);
    CHECK(report.plan.devices.front().num_blocks == 0);
    CHECK((engine.multiply(b, b) == test::oracle_multiply(b, b)));
    CHECK(engine.multiply(a, empty).index.empty());
    CHECK(engine.multiply(empty, empty).index.empty());
  }
}

TEST_CASE("inner division: what is wrong is said as by one device, and the engine goes on") {
  const test::Operands good = gram_like(8, 12, 1000, 65'535);
  BlockMatrix outside = good.first;
  outside.index[123].j = outside.n / outside.m;
  BlockMatrix twice = good.second;
  twice.index[200] = twice.index[17];
  const auto message_of = [](Engine& engine, const BlockMatrix& a, const BlockMatrix& b) {
    try {
      engine.multiply(a, b);
    } catch (const FormatError& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  Engine alone(on_devices({0}));
  const ProductMatrix expected = alone.multiply(good.first, good.second);
  const Wish wish("inner");
  for (const std::vector<int>& devices : device_lists()) {
    Engine engine(on_devices(devices));
    for (int i = 0; i < 2; ++i) {
      CHECK(message_of(engine, outside, good.second) == message_of(alone, outside, good.second));
      CHECK(message_of(engine, good.first, twice) == message_of(alone, good.first, twice));
      test::MemorySource broken(good.first);
      std::atomic<int> left = 3;  // the sample is read first
      broken.on_read = [&] {
        if (--left < 0) throw IoError("source", "is broken", "-");
      };
      test::MemorySink sink(good.first.header());
      left = 1'000'000;
      engine.multiply(broken, test::MemorySource(good.second), sink);
      const int reads = 1'000'000 - left;
      left = reads - 1;
      test::MemorySink another(good.first.header());
      CHECK_THROWS_AS(engine.multiply(broken, test::MemorySource(good.second), another), IoError);
      test::DroppingSink dropping;
      CHECK_THROWS_AS(engine.multiply(test::MemorySource(good.first), test::MemorySource(good.second), dropping),
                      IoError);
      const std::atomic<bool> cancel{true};
      ProductOptions cancelled;
      cancelled.cancel = &cancel;
      CHECK_THROWS_AS(engine.multiply(good.first, good.second, cancelled), Interrupted);
      CHECK((engine.multiply(good.first, good.second) == expected));
    }
  }
}

TEST_CASE("inner division: partial products that are larger than a sample told give way to rows") {
  const BlockMatrix a = test::random_matrix(4800, 8, 40'000, 65'535, 1);
  const BlockMatrix b = test::random_matrix(4800, 8, 40'000, 65'535, 2);
  const ProductMatrix expected = Engine(on_devices({0})).multiply(a, b);
  REQUIRE(expected.index.size() > 300'000);  // 80 MB: more than is allowed for beyond what is expected
  const Wish wish("inner");
  for (const std::vector<int>& devices : device_lists()) {
    Engine engine(on_devices(devices));
    for (const bool misleads : {true, false, true}) {
      INFO(devices.size() << " devices, misleading " << misleads);
      test::MemorySink sink(a.header());
      const Report report = misleads ? engine.multiply(MisleadingSource(a), test::MemorySource(b), sink)
                                     : engine.multiply(test::MemorySource(a), test::MemorySource(b), sink);
      CHECK(report.plan.inner_division != misleads);
      CHECK((sink.product() == expected));
    }
  }
}

TEST_CASE("inner division: not where the host cannot hold the partial products, nor for several ranges") {
  const Wish wish("inner");
  const test::Operands operands = gram_like(8, 12, 1000, 65'535);
  EngineOptions tight = on_devices({0, 0});
  tight.memory_limit_bytes = std::uint64_t{150} << 20;
  Report report;
  const ProductMatrix product = Engine(tight).multiply(operands.first, operands.second, {}, &report);
  CHECK((product == test::oracle_multiply(operands.first, operands.second)));
  CHECK_FALSE(report.plan.inner_division);
}

TEST_CASE("small inner division: two devices, saturated or not") {
  const Wish wish("inner");
  Engine engine(on_devices({0, 0}));
  for (const std::uint32_t max_value : {100u, 65'535u}) {
    for (const std::uint32_t m : {1u, 8u, 11u}) {
      const test::Operands operands = gram_like(m, 6, 300, max_value);
      INFO("m " << m << ", elements to " << max_value);
      Report report;
      REQUIRE((engine.multiply(operands.first, operands.second, {}, &report) ==
               test::oracle_multiply(operands.first, operands.second)));
      CHECK(report.plan.inner_division);
    }
  }
}
