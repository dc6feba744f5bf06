// Operands that stay on the device between products: the same bytes as without, and nothing read twice; every layout,
// either side, changed files, little memory, many threads, failures, the end of the engine.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "kernels/check.hpp"
#include "spmm/spmm.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/gpu_kernels.hpp"
#include "support/memory_stream.hpp"
#include "support/oracle.hpp"
#include "support/process.hpp"

namespace {

using namespace spmm;
using test::on_gpu;

constexpr auto kSettled = std::chrono::milliseconds(50);  // a file that was changed within 20 ms is not kept

ProductOptions keeping_b(const std::string& kernel = "auto") {
  ProductOptions options = on_gpu(kernel);
  options.keep_b = true;
  return options;
}

/// Kernels of the GPU that take blocks of side m; together they use every layout of the operands.
std::vector<std::string> gpu_kernels(std::uint32_t m) {
  std::vector<std::string> names = test::kernels_here();
  std::erase_if(names, [&](const std::string& kernel) { return !test::takes_operands(kernel, m, 1); });
  return names;
}

/// Matrices in files, and products of them on one engine.
class KeepingEngine {
 public:
  explicit KeepingEngine(const EngineOptions& options = {}) : engine(options) {}

  /// Waits until the file may be kept.
  std::string write(const std::string& name, const BlockMatrix& matrix) const {
    write_matrix(folder.file(name), matrix);
    std::this_thread::sleep_for(kSettled);
    return folder.file(name);
  }

  Report multiply(const std::string& a, const std::string& b, const ProductOptions& options) {
    return engine.multiply(folder.file(a), folder.file(b), folder.file("c"), options);
  }
  [[nodiscard]] ProductMatrix product() const { return read_product(folder.file("c")); }

  test::TemporaryFolder folder;
  Engine engine;
};

std::uint64_t record_bytes(const BlockMatrix& matrix) {
  return matrix.index.size() * input_record_bytes(matrix.m);
}

std::uint64_t free_now() {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  spmm::check(cudaMemGetInfo(&free_bytes, &total_bytes), "device memory");
  return free_bytes;
}

}  // namespace

TEST_CASE("kept operands: 20 products with one B give the bytes of single ones, whatever the kernel, and read B once") {
  for (const std::uint32_t m : {1u, 3u, 4u, 8u, 16u, 33u}) {
    const std::vector<std::string> kernels = gpu_kernels(m);
    const std::uint32_t side = 320 / m;
    const std::uint32_t blocks = std::min(side * side / 3, 2400 / m);
    const BlockMatrix b = test::random_matrix(side * m, m, blocks, 65535, 1000 + m);
    KeepingEngine place;
    place.write("b", b);
    std::vector<BlockMatrix> as;
    std::vector<ProductMatrix> expected;
    for (std::uint64_t x = 0; x < 3; ++x) {
      as.push_back(test::random_matrix(side * m, m, blocks / 2 + 1, 65535, x + m));
      expected.push_back(test::oracle_multiply(as.back(), b));
      place.write("a" + std::to_string(x), as.back());
    }
    for (std::size_t i = 0; i < 20; ++i) {
      const std::size_t x = i % as.size();
      ProductOptions options = on_gpu(kernels[i % kernels.size()]);
      options.keep_b = i == 0;
      options.verify_blocks = i % 4 == 0 ? 5 : 0;
      INFO("m " << m << ", product " << i << ", kernel " << options.kernel);
      const Report report = place.multiply("a" + std::to_string(x), "b", options);
      REQUIRE((place.product() == expected[x]));
      CHECK_FALSE(report.kept_a);
      CHECK(report.kept_b == (i > 0));
      CHECK(report.b.num_blocks == b.index.size());
      const std::uint64_t bytes = record_bytes(as[x]) + (i == 0 ? record_bytes(b) : 0);
      CHECK(report.stage(Stage::read).bytes == bytes);
      CHECK(report.stage(Stage::h2d).bytes == bytes);
    }
  }
}

TEST_CASE("kept operands: either side of a product, both, and a square, with every kernel") {
  for (const std::uint32_t m : {1u, 4u, 5u, 8u, 32u}) {
    const std::uint32_t side = 256 / m;
    const std::uint32_t blocks = std::min(side * side / 3, 1600 / m);
    const BlockMatrix x = test::random_matrix(side * m, m, blocks, 65535, m);
    const BlockMatrix y = test::random_matrix(side * m, m, blocks, 65535, m + 100);
    const std::array<std::array<std::string, 2>, 3> pairs{{{"x", "y"}, {"y", "x"}, {"x", "x"}}};
    const auto matrix = [&](const std::string& name) -> const BlockMatrix& { return name == "x" ? x : y; };
    std::vector<ProductMatrix> expected;
    for (const auto& [a, b] : pairs) expected.push_back(test::oracle_multiply(matrix(a), matrix(b)));
    for (const bool keeps_a : {true, false}) {  // x as A, or as B
      KeepingEngine place;
      place.write("x", x);
      place.write("y", y);
      ProductOptions first = on_gpu("rows");
      first.keep_a = keeps_a;
      first.keep_b = !keeps_a;
      const Report kept = keeps_a ? place.multiply("x", "y", first) : place.multiply("y", "x", first);
      CHECK_FALSE(kept.kept_a);
      CHECK_FALSE(kept.kept_b);
      for (const std::string& kernel : gpu_kernels(m)) {
        for (std::size_t p = 0; p < pairs.size(); ++p) {
          INFO("m " << m << ", kernel " << kernel << ", pair " << p << ", kept as A: " << keeps_a);
          const auto& [a, b] = pairs[p];
          const Report report = place.multiply(a, b, on_gpu(kernel));
          REQUIRE((place.product() == expected[p]));
          CHECK(report.kept_a == (a == "x"));
          CHECK(report.kept_b == (b == "x"));
          CHECK(report.stage(Stage::read).bytes == (p == 2 ? 0 : record_bytes(y)));
        }
      }
    }
    KeepingEngine place;  // a square whose first product keeps both sides
    place.write("x", x);
    ProductOptions both = on_gpu();
    both.keep_a = both.keep_b = true;
    for (int i = 0; i < 2; ++i) {
      const Report report = place.multiply("x", "x", both);
      REQUIRE((place.product() == expected[2]));
      CHECK(report.kept_a == (i == 1));
      CHECK(report.kept_b == (i == 1));
    }
  }
}

TEST_CASE("kept operands: larger ones, with panels and several chunks of reading") {
  const BlockMatrix b = test::random_matrix(8 * 700, 8, 150'000, 65535, 1);
  KeepingEngine place;
  place.write("b", b);
  for (const std::string kernel : {"auto", "rows", "pair-list", "auto"}) {
    for (std::uint64_t x = 0; x < 2; ++x) {
      place.write("a", test::random_matrix(8 * 700, 8, 20'000, 65535, 10 + x));
      place.multiply("a", "b", keeping_b(kernel));
      const ProductMatrix shared = place.product();
      const Report alone =
          multiply(place.folder.file("a"), place.folder.file("b"), place.folder.file("c"), Options{{}, on_gpu(kernel)});
      INFO("kernel " << kernel);
      CHECK_FALSE(alone.kept_b);
      REQUIRE((place.product() == shared));
    }
  }
}

TEST_CASE("kept operands: a file that was changed or replaced between products is read anew") {
  const BlockMatrix a = test::random_matrix(8 * 40, 8, 300, 65535, 1);
  KeepingEngine place;
  place.write("a", a);
  for (std::uint64_t seed = 2; seed < 6; ++seed) {
    const BlockMatrix b = test::random_matrix(8 * 40, 8, 500, 65535, seed);  // the same size every time
    place.write("b", b);
    for (int i = 0; i < 2; ++i) {
      const Report report = place.multiply("a", "b", keeping_b());
      REQUIRE((place.product() == test::oracle_multiply(a, b)));
      CHECK(report.kept_b == (i == 1));
    }
  }
}

TEST_CASE("kept operands: a product that fails keeps nothing, and does not stand in the way of later ones") {
  const BlockMatrix a = test::random_matrix(8 * 40, 8, 300, 65535, 1);
  const BlockMatrix b = test::random_matrix(8 * 40, 8, 500, 65535, 2);
  BlockMatrix bad = a;
  bad.index[5].j = bad.n / bad.m;
  BlockMatrix twice = b;
  twice.index[7] = twice.index[100];
  KeepingEngine place;
  place.write("a", a);
  place.write("b", b);
  place.write("bad", bad);
  place.write("twice", twice);
  for (int i = 0; i < 2; ++i) {
    CHECK_THROWS_AS(place.multiply("bad", "b", keeping_b()), FormatError);
    CHECK_THROWS_AS(place.multiply("a", "twice", keeping_b()), FormatError);
  }
  CHECK_FALSE(place.multiply("a", "b", keeping_b()).kept_b);
  CHECK_THROWS_AS(place.multiply("bad", "b", keeping_b()), FormatError);  // with the kept one
  std::atomic<bool> cancel{true};
  ProductOptions cancelled = keeping_b();
  cancelled.cancel = &cancel;
  CHECK_THROWS_AS(place.multiply("a", "b", cancelled), Interrupted);
  CHECK(place.multiply("a", "b", on_gpu()).kept_b);
  REQUIRE((place.product() == test::oracle_multiply(a, b)));
}

TEST_CASE("kept operands: where memory is short they give way, the oldest first, and no product fails") {
  // So few pairs that all are listed: pair-list leaves its operands in file order and uses them where they are kept.
  const BlockMatrix a = test::random_matrix(8 * 2000, 8, 20'000, 65535, 1);
  const std::vector<std::string> names = {"b0", "b1", "b2"};
  std::vector<BlockMatrix> bs;
  for (std::uint64_t x = 0; x < names.size(); ++x) bs.push_back(test::random_matrix(8 * 2000, 8, 20'000, 65535, x + 2));
  Report alone;
  const ProductMatrix expected = multiply(a, bs[0], Options{{}, on_gpu("pair-list")}, &alone);
  const std::uint64_t operand_bytes = 20'000 * (128 + 16) + 2000 * 8;
  // What is reserved comes from the headers; counted pairs may need less.
  KeepingEngine unlimited;
  unlimited.write("a", a);
  const std::uint64_t reserved_bytes =
      unlimited.engine.plan(unlimited.folder.file("a"), unlimited.folder.file("a"), on_gpu("pair-list"))
          .device_need_bytes;
  const std::uint64_t product_bytes = std::max(reserved_bytes, alone.plan.device_need_bytes);
  // Room for a product with one, two or three operands: those in use count with it, and two in file order stay.
  for (const std::uint64_t num_fit : {0u, 1u, 2u}) {
    EngineOptions tight;
    tight.memory_limit_bytes = product_bytes + num_fit * operand_bytes + operand_bytes / 2;
    KeepingEngine place(tight);
    place.write("a", a);
    for (std::size_t x = 0; x < names.size(); ++x) place.write(names[x], bs[x]);
    const auto kept_b = [&](std::size_t x) {
      const Report report = place.multiply("a", names[x], keeping_b("pair-list"));
      CHECK(report.plan.device_need_bytes == alone.plan.device_need_bytes);
      CHECK(report.peak_device_bytes <= tight.memory_limit_bytes);
      if (x == 0) REQUIRE((place.product() == expected));
      return report.kept_b;
    };
    INFO("room for " << num_fit << " beside a product");
    CHECK_FALSE(kept_b(0));
    CHECK(kept_b(0));
    CHECK_FALSE(kept_b(1));
    CHECK(kept_b(0) == (num_fit > 0));
    CHECK_FALSE(kept_b(2));
    CHECK(kept_b(1) == (num_fit > 1));                                  // 0 is used later than 1
    for (const std::string kernel : {"rows", "two-pointer", "rows"}) {  // with copies of their own
      place.multiply("a", "b0", keeping_b(kernel));
      REQUIRE((place.product() == expected));
    }
  }
}

TEST_CASE("kept operands: a product in slabs keeps nothing, and takes the memory of what is kept") {
  const BlockMatrix small = test::random_matrix(8 * 400, 8, 3'000, 65535, 1);
  const BlockMatrix large = test::random_matrix(8 * 400, 8, 150'000, 65535, 2);
  EngineOptions tight;
  tight.memory_limit_bytes = 90u << 20;  // large alone takes 110 MB to sort
  KeepingEngine place(tight);
  place.write("small", small);
  place.write("large", large);
  CHECK_FALSE(place.multiply("small", "small", keeping_b("rows")).kept_b);
  CHECK(place.multiply("small", "small", keeping_b("rows")).kept_b);
  for (int i = 0; i < 2; ++i) {
    const Report report = place.multiply("large", "small", keeping_b("rows"));
    CHECK(report.plan.num_a_slabs * report.plan.num_b_slabs > 1);
    CHECK_FALSE(report.kept_b);
    CHECK(report.peak_device_bytes <= tight.memory_limit_bytes);
  }
  CHECK_FALSE(place.multiply("small", "small", keeping_b("rows")).kept_b);
  REQUIRE((place.product() == test::oracle_multiply(small, small)));
}

TEST_CASE("kept operands: four threads share one B from the first moment: it is read once, all products are right") {
  const std::vector<std::string> kernels = gpu_kernels(8);
  const BlockMatrix b = test::random_matrix(8 * 100, 8, 3000, 65535, 1);
  KeepingEngine place;
  place.write("b", b);
  std::vector<BlockMatrix> as;
  std::vector<ProductMatrix> expected;
  for (std::uint64_t x = 0; x < 4; ++x) {
    as.push_back(test::random_matrix(8 * 100, 8, 2000, 65535, x + 2));
    expected.push_back(test::oracle_multiply(as.back(), b));
  }
  std::atomic<unsigned> num_read{0};
  std::vector<std::string> wrong(as.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < as.size(); ++t) {
      threads.emplace_back([&, t] {
        for (std::size_t i = 0; i < 30; ++i) {
          const std::string& kernel = kernels[(i + t) % kernels.size()];
          try {
            const auto source_b = open_file_source(place.folder.file("b"));
            test::MemorySink sink(b.header());
            const Report report = place.engine.multiply(test::MemorySource(as[t]), *source_b, sink, keeping_b(kernel));
            num_read += report.kept_b ? 0 : 1;
            if (sink.product() != expected[t]) wrong[t] += " " + kernel;
          } catch (const std::exception& error) {
            wrong[t] += " " + kernel + ": " + error.what();
          }
        }
      });
    }
  }
  for (const std::string& one : wrong) CHECK(one == "");
  CHECK(num_read == 1);
}

TEST_CASE("kept operands: threads that keep, share and evict many operands at once under a tight limit") {
  const BlockMatrix a = test::random_matrix(8 * 400, 8, 30'000, 65535, 1);
  Report alone;
  multiply(a, a, Options{{}, on_gpu("rows")}, &alone);
  EngineOptions tight;
  tight.memory_limit_bytes = alone.plan.device_need_bytes * 5 / 2;  // two products, and little more
  KeepingEngine place(tight);
  place.write("a", a);
  std::vector<ProductMatrix> expected;
  for (std::uint64_t x = 0; x < 5; ++x) {
    const BlockMatrix b = test::random_matrix(8 * 400, 8, 30'000, 65535, x + 2);
    place.write("b" + std::to_string(x), b);
    expected.push_back(multiply(a, b, Options{{}, on_gpu("rows")}));
  }
  constexpr std::array<const char*, 3> kKernels = {"rows", "pair-list", "two-pointer"};
  std::vector<std::string> wrong(4);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < wrong.size(); ++t) {
      threads.emplace_back([&, t] {
        for (std::size_t i = 0; i < 15; ++i) {
          const std::size_t x = (i * (t + 1)) % expected.size();
          try {
            ProductOptions options = keeping_b(kKernels[(i + t) % kKernels.size()]);
            options.keep_a = t == 0;
            const auto source_a = open_file_source(place.folder.file("a"));
            const auto source_b = open_file_source(place.folder.file("b" + std::to_string(x)));
            test::MemorySink sink(a.header());
            place.engine.multiply(*source_a, *source_b, sink, options);
            if (sink.product() != expected[x]) wrong[t] += " " + options.kernel;
          } catch (const std::exception& error) {
            wrong[t] += std::string(" ") + error.what();
          }
        }
      });
    }
  }
  for (const std::string& one : wrong) CHECK(one == "");
}

TEST_CASE("kept operands: they go with the engine, and many of them leave streams and memory as they were") {
  const BlockMatrix a = test::random_matrix(8 * 400, 8, 30'000, 65535, 1);
  const auto use_engine = [&] {
    KeepingEngine place;
    place.write("a", a);
    for (int i = 0; i < 10; ++i) {
      const std::string name = "b" + std::to_string(i);
      write_matrix(place.folder.file(name), a);
    }
    std::this_thread::sleep_for(kSettled);
    for (int i = 0; i < 20; ++i) {
      const Report report = place.multiply("a", "b" + std::to_string(i % 10), keeping_b("rows"));
      CHECK(report.kept_b == (i >= 10));
    }
  };
  use_engine();
  const std::uint64_t before = free_now();
  use_engine();
  CHECK(free_now() + (4u << 20) >= before);
}
