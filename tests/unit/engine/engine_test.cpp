// Many products on one engine: at once, one after the other, and in want of memory. All on the CPU backend.
#include "spmm/engine.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "engine/product.hpp"
#include "spmm/spmm.hpp"
#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "support/memory_stream.hpp"
#include "support/process.hpp"
#include "support/product_cases.hpp"
#include "verify/proof.hpp"

namespace {

using namespace spmm;

/// Different shapes and every kernel of the CPU.
std::vector<test::ProductCase> make_cases() {
  std::vector<test::ProductCase> cases;
  cases.push_back(test::make_product_case(4, 60, 700, "auto"));
  cases.push_back(test::make_product_case(8, 40, 300, "row-merge"));
  cases.push_back(test::make_product_case(3, 50, 600, "reference"));
  cases.push_back(test::make_product_case(16, 12, 60, "row-merge"));
  cases.push_back(test::make_product_case(2, 200, 900, "auto"));
  cases.push_back(test::make_product_case(64, 4, 7, "row-merge"));
  cases.push_back(test::make_product_case(5, 30, 0, "auto"));
  cases.push_back(test::make_product_case(8, 10, 100, "auto"));
  return cases;
}

ProductOptions on_cpu(const std::string& kernel = "auto") {
  ProductOptions options;
  options.backend = Backend::cpu;
  options.kernel = kernel;
  return options;
}

/// Counts what is read of it.
class CountingSource : public test::MemorySource {
 public:
  using MemorySource::MemorySource;
  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override {
    num_read += count;
    MemorySource::read(first, count, dst);
  }
  mutable std::atomic<std::uint64_t> num_read{0};
};

/// Was changed while it was read.
class ChangedSource : public test::MemorySource {
 public:
  using MemorySource::MemorySource;
  void check_unchanged() const override { throw FormatError(name(), "was changed", "run again"); }
};

}  // namespace

TEST_CASE("an engine belongs to the process that made it") {
  if (!test::kForksWithThreads) {
    WARN("not with this sanitizer or emulator");
    return;
  }
  const test::ProductCase one = test::make_product_case(4, 60, 700, "auto");
  auto engine = std::make_unique<Engine>(EngineOptions{.num_threads = 4});
  REQUIRE(engine->multiply(one.a, one.b, on_cpu()) == one.expected);  // starts threads
  const int status = test::exit_status_of([&] {
    ::alarm(60);
    const std::string message = test::message_of<UsageError>([&] { engine->multiply(one.a, one.b, on_cpu()); });
    engine.reset();
    if (message.find("make an engine after fork()") == std::string::npos) return 2;
    return Engine().multiply(one.a, one.b, on_cpu()) == one.expected ? 0 : 3;
  });
  CHECK(status == 0);
  CHECK(engine->multiply(one.a, one.b, on_cpu()) == one.expected);
}

TEST_CASE("concurrent products of different shapes and kernels on one engine give the bytes of single ones") {
  EngineOptions shared;
  shared.num_threads = 3;
  Engine engine(shared);
  const auto options_of = [](unsigned, std::size_t, const test::ProductCase& one) { return on_cpu(one.kernel); };
  for (const std::string& one : test::wrong_at_once(engine, make_cases(), options_of)) CHECK(one == "");
}

TEST_CASE("1,000 products in one process: no more memory, no more threads") {
  const test::ProductCase one = test::make_product_case(8, 40, 300, "row-merge");
  EngineOptions shared;
  shared.num_threads = 3;
  Engine engine(shared);
  const auto multiply_some = [&](int num) {
    for (int i = 0; i < num; ++i) {
      REQUIRE((engine.multiply(one.a, one.b, on_cpu(one.kernel)) == one.expected));
      if (i % 10 == 0) REQUIRE((multiply(one.a, one.b, {shared, on_cpu(one.kernel)}) == one.expected));
    }
  };
  multiply_some(100);
  const std::uint64_t kb = test::own_status("VmRSS");
  const std::uint64_t threads = test::own_status("Threads");
  multiply_some(900);
  CHECK(test::own_status("Threads") == threads);
  if (!test::kSanitizersKeepMemory) CHECK(test::own_status("VmRSS") <= kb + 4096);  // 5 kB a product
}

TEST_CASE("a product that does not fit beside another one waits, plans as if it were alone, and can be cancelled") {
  const test::ProductCase one = test::make_product_case(8, 200, 3000, "row-merge");
  EngineOptions shared;
  shared.num_threads = 1;
  test::MemorySink first(one.a.header());
  const Report alone =
      Engine(shared).multiply(test::MemorySource(one.a), test::MemorySource(one.b), first, on_cpu("row-merge"));
  shared.memory_limit_bytes = alone.plan.host_need_bytes * 3 / 2;  // room for one, not for two
  Engine engine(shared);

  test::GatedSink gated(one.a.header());
  std::jthread holds(
      [&] { engine.multiply(test::MemorySource(one.a), test::MemorySource(one.b), gated, on_cpu("row-merge")); });
  gated.wait_until_reached();

  std::atomic<bool> cancel{true};
  ProductOptions options = on_cpu("row-merge");
  options.cancel = &cancel;
  CHECK_THROWS_AS(engine.multiply(one.a, one.b, options), Interrupted);

  std::atomic<bool> done{false};
  Report report;
  test::MemorySink sink(one.a.header());  // no part of the limit, unlike a result that is returned
  std::jthread waits([&] {
    report = engine.multiply(test::MemorySource(one.a), test::MemorySource(one.b), sink, on_cpu("row-merge"));
    done = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // long enough for one that does not wait
  CHECK_FALSE(done);
  gated.open();
  holds.join();
  waits.join();
  CHECK((sink.product() == one.expected));
  CHECK((gated.product() == one.expected));
  CHECK(report.plan.host_need_bytes == alone.plan.host_need_bytes);
  CHECK(report.stage(Stage::budget).s > 0);
}

TEST_CASE("a product that is verified waits for memory before it reads anything for that") {
  const test::ProductCase one = test::make_product_case(8, 200, 3000, "row-merge");
  EngineOptions shared;
  shared.num_threads = 1;
  test::MemorySink first(one.a.header());
  const Report alone =
      Engine(shared).multiply(test::MemorySource(one.a), test::MemorySource(one.b), first, on_cpu("row-merge"));
  shared.memory_limit_bytes = alone.plan.host_need_bytes * 3 / 2;
  Engine engine(shared);
  test::GatedSink gated(one.a.header());
  std::jthread holds(
      [&] { engine.multiply(test::MemorySource(one.a), test::MemorySource(one.b), gated, on_cpu("row-merge")); });
  gated.wait_until_reached();

  ProductOptions proven = on_cpu("row-merge");
  proven.verify_full = true;
  ProductOptions sampled = on_cpu("row-merge");
  sampled.verify_blocks = 20;
  for (const ProductOptions& options : {proven, sampled}) {
    const CountingSource a(one.a);
    const CountingSource b(one.b);
    std::atomic<bool> cancel{false};
    ProductOptions cancelled = options;
    cancelled.cancel = &cancel;
    test::MemorySink sink(one.a.header());
    std::jthread waits([&] { CHECK_THROWS_AS(engine.multiply(a, b, sink, cancelled), Interrupted); });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // long enough for one that does not wait
    CHECK(a.num_read + b.num_read == 0);
    cancel = true;
  }
  gated.open();
  holds.join();
  const CountingSource a(one.a);
  test::MemorySink sink(one.a.header());
  const Report report = engine.multiply(a, test::MemorySource(one.b), sink, proven);
  CHECK((sink.product() == one.expected));
  CHECK(report.proof.num_rows != 0);
  CHECK(a.num_read > one.a.header().num_blocks);  // for the proof, too
}

TEST_CASE("a limit that the product passes by far is refused before anything is read") {
  const test::ProductCase one = test::make_product_case(8, 200, 3000, "row-merge");
  EngineOptions shared;
  shared.memory_limit_bytes = 1000;
  Engine engine(shared);
  ProductOptions proven = on_cpu();
  proven.verify_full = true;
  ProductOptions sampled = on_cpu();
  sampled.verify_blocks = 20;
  for (const ProductOptions& options : {on_cpu(), proven, sampled}) {
    const CountingSource a(one.a);
    const CountingSource b(one.b);
    test::MemorySink sink(one.a.header());
    CHECK_THROWS_AS(engine.multiply(a, b, sink, options), OutOfMemory);
    CHECK(a.num_read + b.num_read == 0);
  }
}

TEST_CASE("a release is called once: when its last copy is asked to, replaced or destroyed") {
  int released = 0;
  const auto count = [&] { ++released; };
  {
    Release first(count);
    first();
    first();
    CHECK(released == 1);
    Release second(count);
    first = std::move(second);
    CHECK(released == 1);
    first = Release(count);
    CHECK(released == 2);
    const Release copy(first);
    first();
    CHECK(released == 2);
    CHECK_NOTHROW(Release()());
  }
  CHECK(released == 3);
}

TEST_CASE("a failure on the CPU is thrown as it is, and the product does not run again") {
  const test::ProductCase one = test::make_product_case(8, 40, 300, "auto");
  const auto check_thrown = [&](const auto& failure) {
    test::MemorySource a(one.a);
    std::atomic<bool> has_failed = false;
    a.on_read = [&] {
      if (!has_failed.exchange(true)) throw failure;
    };
    test::MemorySink sink(one.a.header());
    Engine engine;
    const auto run = [&] { engine.multiply(a, test::MemorySource(one.b), sink, {}); };
    CHECK(test::message_of<std::runtime_error>(run) == failure.what());
  };
  check_thrown(std::runtime_error("the caller's own"));
  check_thrown(std::system_error(EAGAIN, std::generic_category(), "thread"));
  check_thrown(DeviceError("a device", "of the caller's source", "look at it"));
}

TEST_CASE("an operand that was changed while it was read is an error, the left and the right one") {
  const test::ProductCase one = test::make_product_case(4, 60, 700, "auto");
  const test::MemorySource a(one.a), b(one.b);
  const ChangedSource changed_a(one.a), changed_b(one.b);
  Engine engine;
  test::MemorySink sink(one.a.header());
  CHECK_THROWS_AS(engine.multiply(changed_a, b, sink, on_cpu()), FormatError);
  CHECK_THROWS_AS(engine.multiply(a, changed_b, sink, on_cpu()), FormatError);
}

TEST_CASE("the header of a caller's own source is checked") {
  class BadSource : public test::MemorySource {
   public:
    using MemorySource::MemorySource;
    [[nodiscard]] const MatrixHeader& header() const override { return bad_; }

   private:
    MatrixHeader bad_{.n = 10, .m = 4, .num_blocks = 1};  // 10 is no multiple of 4
  };
  const BlockMatrix matrix = test::random_matrix(8, 4, 1, 9, 1);
  Engine engine;
  test::MemorySink sink(matrix.header());
  CHECK_THROWS_AS(engine.multiply(BadSource(matrix), BadSource(matrix), sink, on_cpu()), FormatError);
}

TEST_CASE("the samples of --verify are taken out of the limit, in a plan as in a product") {
  const BlockMatrix a = test::random_matrix(8 * 60, 8, 700, 9, 1);
  const test::TemporaryFolder folder;
  write_matrix(folder.file("a.bin"), a);
  EngineOptions limited;
  limited.memory_limit_bytes = 40'000'000;
  Engine engine(limited);
  ProductOptions options = on_cpu();
  const auto limit_of = [&] {
    return engine.plan(folder.file("a.bin"), folder.file("a.bin"), options).host_limit_bytes;
  };
  CHECK(limit_of() == limited.memory_limit_bytes);
  options.verify_blocks = 30;
  const std::uint64_t samples = Proof::resident_bytes(a.header(), options.verify_blocks);
  CHECK(limit_of() == limited.memory_limit_bytes - samples);
  test::MemorySink sink(a.header());
  const Report report = engine.multiply(test::MemorySource(a), test::MemorySource(a), sink, options);
  CHECK(report.plan.host_limit_bytes == limited.memory_limit_bytes - samples);
  CHECK(report.verified_blocks > 30);
  CHECK(report.verified_blocks < report.c_blocks);
  options.verify_blocks = 1u << 30;
  CHECK(limit_of() >= limited.memory_limit_bytes / 8 * 7);
}

TEST_CASE("devices are named once, one way, and mean CUDA") {
  const test::ProductCase one = test::make_product_case(8, 10, 20, "auto");
  const auto with = [](std::vector<int> devices, int device = -1) {
    EngineOptions options;
    options.devices = std::move(devices);
    options.device = device;
    return options;
  };
  CHECK_THROWS_AS(Engine(with({0, 1, 0})), UsageError);
  CHECK_THROWS_AS(Engine(with({0, kAllDevices})), UsageError);
  CHECK_THROWS_AS(Engine(with({0, 1}, 0)), UsageError);
  Engine engine(with({kAllDevices}));
  CHECK_THROWS_AS(engine.multiply(one.a, one.b, on_cpu()), UsageError);
  if (!has_cuda_device()) CHECK_THROWS_AS(engine.multiply(one.a, one.b), DeviceError);
}
