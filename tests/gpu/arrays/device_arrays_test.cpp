// Operands and results as arrays in device memory: the oracle's product for every kernel, streams, allocators, errors.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/check.hpp"
#include "spmm/spmm.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/gpu_kernels.hpp"
#include "support/matrices.hpp"
#include "support/on_device.hpp"
#include "support/oracle.hpp"

namespace {

using namespace spmm;
using test::on_gpu;

using test::as_bsr;
using test::blocks_on_host;
using test::DeviceMatrix;
using test::OnDevice;
using Arrays = BsrMatrix<std::uint16_t>;

template <class Index>
ProductMatrix multiply_on_device(Engine& engine, const BlockMatrix& a, const BlockMatrix& b,
                                 const ProductOptions& options, Report* report = nullptr, const DeviceCall& call = {}) {
  const DeviceMatrix<Index> on_a(a);
  const DeviceMatrix<Index> on_b(b);
  return blocks_on_host<Index>(engine.multiply(on_a.view(), on_b.view(), call, options, report), a.n);
}

}  // namespace

TEST_CASE("small device arrays: every kernel gives the oracle's product and counts the elements at the limit") {
  Engine engine;
  for (const std::uint32_t m : {1u, 2u, 3u, 4u, 5u, 8u, 16u, 33u}) {
    const BlockMatrix a = test::random_matrix(m * 8, m, 20, 65535, m);
    const BlockMatrix b = test::random_matrix(m * 8, m, 40, 65535, m + 1);
    const ProductMatrix expected = test::oracle_multiply(a, b);
    for (const std::string& kernel : test::kernels_here()) {
      if (!test::takes_operands(kernel, m, 8)) continue;
      INFO("m " << m << ", kernel " << kernel);
      Report report;
      REQUIRE((multiply_on_device<std::int32_t>(engine, a, b, on_gpu(kernel), &report) == expected));
      REQUIRE(report.saturated_elements == test::num_saturated(expected));
    }
    REQUIRE((multiply_on_device<std::int64_t>(engine, a, b, {}) == expected));
  }
}

TEST_CASE("small device plans: new values for a pattern, also in a graph") {
  Engine engine;
  for (const std::uint32_t m : {1u, 2u, 3u, 4u, 5u, 8u, 16u, 33u}) {
    const BlockMatrix a = test::random_matrix(m * 8, m, 20, 255, m);
    const BlockMatrix b = test::random_matrix(m * 8, m, 40, 255, m + 1);
    for (const char* const kernel : {"auto", "row-spread", "pair-list"}) {
      INFO("m " << m << ", kernel " << kernel);
      for (const bool has_values : {false, true}) {
        REQUIRE((test::multiply_by_plan<std::int32_t>(engine, test::as_bsr(a), test::as_bsr(b), a.n, on_gpu(kernel),
                                                      has_values) == test::oracle_multiply(a, b)));
      }
    }
  }
}

namespace {

/// Blocks by row and column; of every `zeros`-th one elements are zero: a column of it, or all.
BlockMatrix sorted_with_zeros(const BlockMatrix& matrix, std::size_t zeros) {
  std::vector<std::size_t> order(matrix.index.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) {
    const auto key = [&](std::size_t at) { return std::pair(matrix.index[at].i, matrix.index[at].j); };
    return key(x) < key(y);
  });
  const std::size_t elements = std::size_t{matrix.m} * matrix.m;
  BlockMatrix sorted{.n = matrix.n, .m = matrix.m, .index = {}, .values = {}};
  for (const std::size_t x : order) {
    sorted.index.push_back(matrix.index[x]);
    for (std::size_t e = 0; e < elements; ++e) {
      const bool is_zero = zeros != 0 && x % zeros == 0 && (x / zeros % 2 == 0 || e % matrix.m == x % matrix.m);
      sorted.values.push_back(is_zero ? std::uint16_t{0} : matrix.values[x * elements + e]);
    }
  }
  return sorted;
}

/// The view with its values at an address that is no multiple of four.
DeviceBsrView at_odd_address(DeviceBsrView view, const std::vector<std::uint16_t>& values,
                             const OnDevice<std::uint16_t>& memory) {
  check(cudaMemcpy(memory.data() + 1, values.data(), values.size() * 2, cudaMemcpyHostToDevice), "copy");
  view.values = memory.data() + 1;
  return view;
}

}  // namespace

TEST_CASE("small device arrays: sorted rows are read where they are, zeros are found, odd addresses are right") {
  Engine engine;
  for (const std::uint32_t m : {1u, 2u, 4u, 8u, 16u}) {
    for (const std::size_t zeros : {0u, 3u, 1u}) {
      for (const char* const kernel : {"auto", "pair-list", "row-spread"}) {
        INFO("m " << m << ", zeros in every " << zeros << "th block, kernel " << kernel);
        const BlockMatrix a = sorted_with_zeros(test::random_matrix(m * 40, m, 300, 2047, m), zeros);
        const BlockMatrix b = sorted_with_zeros(test::random_matrix(m * 40, m, 400, 2047, m + 1), zeros);
        const ProductMatrix expected = test::oracle_multiply(a, b);
        REQUIRE((multiply_on_device<std::int32_t>(engine, a, b, on_gpu(kernel)) == expected));
        const DeviceMatrix<std::int32_t> on_a(a);
        const DeviceMatrix<std::int32_t> on_b(b);
        const OnDevice<std::uint16_t> values_a(std::vector<std::uint16_t>(a.values.size() + 1));
        const OnDevice<std::uint16_t> values_b(std::vector<std::uint16_t>(b.values.size() + 1));
        const DeviceBsrView odd_a = at_odd_address(on_a.view(), a.values, values_a);
        const DeviceBsrView odd_b = at_odd_address(on_b.view(), b.values, values_b);
        REQUIRE((blocks_on_host<std::int32_t>(engine.multiply(odd_a, odd_b, {}, on_gpu(kernel)), a.n) == expected));
        DevicePlan plan = engine.plan(odd_a, odd_b, {}, on_gpu(kernel));
        DeviceBsrMatrix c = plan.pattern();
        const OnDevice<std::uint32_t> values_c(std::vector<std::uint32_t>(c.num_blocks * m * m + 1, 7));
        CHECK_THROWS_AS(plan.multiply(odd_a.values, on_b.view().values, values_c.data(), nullptr), UsageError);
        CHECK_THROWS_AS(plan.multiply(on_a.view().values, odd_b.values, values_c.data(), nullptr), UsageError);
        plan.multiply(on_a.view().values, on_b.view().values, values_c.data(), nullptr);
        c.values = std::shared_ptr<const std::uint32_t>(values_c.data(), [](const std::uint32_t*) {});
        REQUIRE((test::without_zero_blocks(blocks_on_host<std::int32_t>(c, a.n)) == expected));
      }
    }
  }
}

TEST_CASE("device plans: what is wrong is reported, and the engine goes on") {
  Engine engine;
  const BlockMatrix a = test::random_matrix(8 * 20, 8, 100, 2047, 7);
  const DeviceMatrix<std::int32_t> on_a(a);
  CHECK_THROWS_AS(engine.plan(on_a.view(), on_a.view(), {}, on_gpu("row-rank")), UsageError);
  Arrays bad = as_bsr(a);
  bad.indices[17] = 20;
  const DeviceMatrix<std::int32_t> on_bad(bad);
  CHECK(test::message_of<Error>([&] {
          static_cast<void>(engine.plan(on_a.view(), on_bad.view(), {}));
        }).find("indices[17]") != std::string::npos);
  Engine tiny({.memory_limit_bytes = 1u << 20});
  const BlockMatrix large = test::random_matrix(8 * 512, 8, 9000, 2047, 7);
  const DeviceMatrix<std::int32_t> on_large(large);
  CHECK_THROWS_AS(tiny.plan(on_large.view(), on_large.view(), {}), OutOfMemory);
  CHECK((test::multiply_by_plan<std::int32_t>(engine, as_bsr(a), as_bsr(a), a.n, {}, true) ==
         test::oracle_multiply(a, a)));
}

TEST_CASE("device arrays: sides that do not fit, panels, too little memory") {
  const BlockMatrix one = test::random_matrix(8 * 20, 8, 100, 2047, 7);
  const DeviceMatrix<std::int32_t> square(one);
  DeviceBsrView wide = square.view();
  wide.cols += 8;
  Engine engine;
  CHECK_THROWS_AS(engine.multiply(wide, square.view(), {}), ShapeError);
  const BlockMatrix large = test::random_matrix(64 * 512, 64, 900, 65535, 5);
  const ProductMatrix whole = multiply(large, large, on_gpu());
  Report report;
  Engine small({.memory_limit_bytes = 100u << 20});
  CHECK((multiply_on_device<std::int32_t>(small, large, large, {}, &report) == whole));
  CHECK(report.num_panels > 1);
  Engine too_small({.memory_limit_bytes = 40u << 20});
  CHECK_THROWS_AS(multiply_on_device<std::int32_t>(too_small, large, large, {}), OutOfMemory);
}

TEST_CASE("device arrays: every kind of stream, and results that outlive their engine") {
  const BlockMatrix a = test::random_matrix(8 * 40, 8, 400, 2047, 7);
  const ProductMatrix expected = test::oracle_multiply(a, a);
  cudaStream_t own = nullptr;
  cudaStream_t beside = nullptr;
  check(cudaStreamCreate(&own), "stream");
  check(cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking), "stream");
  for (const cudaStream_t stream : {cudaStream_t{}, cudaStreamLegacy, cudaStreamPerThread, own, beside}) {
    const Arrays arrays = as_bsr(a);
    const DeviceMatrix<std::int32_t> on_a(a);
    // Elements that arrive late, in the order of the stream.
    const std::size_t bytes = arrays.data.size() * 2;
    auto* const values = static_cast<std::uint16_t*>(const_cast<void*>(on_a.view().values));
    check(cudaMemsetAsync(values, 0xFF, bytes, stream), "clear");
    check(cudaMemcpyAsync(values, arrays.data.data(), bytes, cudaMemcpyHostToDevice, stream), "copy");
    DeviceBsrMatrix c;
    {
      Engine engine;
      c = engine.multiply(on_a.view(), on_a.view(), {.stream = stream});
      c = engine.multiply(on_a.view(), on_a.view(), {.stream = stream});
    }
    check(cudaStreamSynchronize(stream), "stream");
    CHECK((blocks_on_host<std::int32_t>(c, a.n) == expected));
    c = {};
    check(cudaStreamSynchronize(stream), "stream");
  }
  cudaGraph_t graph = nullptr;
  const DeviceMatrix<std::int32_t> on_a(a);
  Engine engine;
  check(cudaStreamBeginCapture(beside, cudaStreamCaptureModeThreadLocal), "capture");
  CHECK_THROWS_AS(engine.multiply(on_a.view(), on_a.view(), {.stream = beside}), UsageError);
  check(cudaStreamEndCapture(beside, &graph), "capture");
  if (graph != nullptr) check(cudaGraphDestroy(graph), "graph");
  CHECK((blocks_on_host<std::int32_t>(engine.multiply(on_a.view(), on_a.view(), {.stream = beside}), a.n) == expected));
  check(cudaStreamDestroy(own), "stream");
  check(cudaStreamDestroy(beside), "stream");
}

TEST_CASE("device arrays: the caller's allocator gives every array and gets it back once") {
  const BlockMatrix a = test::random_matrix(8 * 40, 8, 400, 2047, 7);
  const ProductMatrix expected = test::oracle_multiply(a, a);
  Engine engine;
  int num_held = 0;
  int num_left = 3;
  DeviceCall call{.stream = nullptr,
                  .allocator = {.allocate = [&](std::uint64_t bytes, std::uint64_t alignment, CUstream_st*) -> void* {
                                  void* data = nullptr;
                                  if (num_left-- <= 0 || cudaMalloc(&data, bytes) != cudaSuccess) return nullptr;
                                  CHECK(reinterpret_cast<std::uintptr_t>(data) % alignment == 0);
                                  ++num_held;
                                  return data;
                                },
                                .release =
                                    [&](void* data, CUstream_st*) {
                                      cudaFree(data);
                                      --num_held;
                                    }}};
  const DeviceMatrix<std::int32_t> on_a(a);
  {
    const DeviceBsrMatrix c = engine.multiply(on_a.view(), on_a.view(), call);
    CHECK(num_held == 3);
    const DeviceBsrMatrix copy = c;
    CHECK((blocks_on_host<std::int32_t>(copy, a.n) == expected));
  }
  CHECK(num_held == 0);
  for (const int left : {0, 1, 2}) {
    num_left = left;
    CHECK_THROWS_AS(engine.multiply(on_a.view(), on_a.view(), call), OutOfMemory);
    CHECK(num_held == 0);
  }
  num_left = 3;
  CHECK((blocks_on_host<std::int32_t>(engine.multiply(on_a.view(), on_a.view(), call), a.n) == expected));
}

TEST_CASE("device arrays: workspace comes from the caller's allocator, too, and all of it goes back") {
  const BlockMatrix a = test::random_matrix(8 * 40, 8, 400, 2047, 7);
  const ProductMatrix expected = test::oracle_multiply(a, a);
  Engine engine;
  std::atomic<int> num_held{0};
  int num_left = 1000;
  DeviceCall call{.allocator = {.allocate = [&](std::uint64_t bytes, std::uint64_t alignment, CUstream_st*) -> void* {
                                  void* data = nullptr;
                                  if (num_left-- <= 0 || cudaMalloc(&data, bytes) != cudaSuccess) return nullptr;
                                  CHECK(reinterpret_cast<std::uintptr_t>(data) % alignment == 0);
                                  ++num_held;
                                  return data;
                                },
                                .release =
                                    [&](void* data, CUstream_st* stream) {
                                      cudaStreamSynchronize(stream);
                                      cudaFree(data);
                                      --num_held;
                                    },
                                .serves_workspace = true}};
  const DeviceMatrix<std::int32_t> on_a(a);
  const std::vector<DevicePair> pairs(3, DevicePair{.a = on_a.view(), .b = on_a.view()});
  {
    const DeviceBsrMatrix c = engine.multiply(on_a.view(), on_a.view(), call);
    CHECK(num_held == 3);
    CHECK(1000 - num_left <= 5);  // arrays of the result, and one for all small buffers
    CHECK((blocks_on_host<std::int32_t>(c, a.n) == expected));
    CHECK(engine.multiply_many(pairs, call).all.num_blocks == 3 * expected.index.size());
    DevicePlan plan = engine.plan(on_a.view(), on_a.view(), call);
    CHECK(num_held > 5);
    const OnDevice<std::uint32_t> values(std::vector<std::uint32_t>(plan.pattern().num_blocks * 64));
    plan.multiply(on_a.view().values, on_a.view().values, values.data(), nullptr);
    CHECK(plan.count_saturated(values.data(), nullptr) == test::num_saturated(expected));
  }
  CHECK(num_held == 0);
  const int num_wanted = 1000 - num_left;
  for (int left = 0; left < num_wanted; left += left < 12 ? 1 : 7) {  // null at every place, or many
    num_left = left;
    try {
      const DeviceBsrMatrix c = engine.multiply(on_a.view(), on_a.view(), call);
      CHECK((blocks_on_host<std::int32_t>(c, a.n) == expected));
    } catch (const OutOfMemory&) {
    }
    CHECK(num_held == 0);
  }
  call.allocator.release = nullptr;
  CHECK_THROWS_AS(engine.multiply(on_a.view(), on_a.view(), call), UsageError);
}

TEST_CASE("device arrays: an allocator that holds the device's memory serves a product, and trim gives the pool back") {
  const BlockMatrix a = test::random_matrix(8 * 512, 8, 9000, 2047, 7);
  const DeviceMatrix<std::int32_t> on_a(a);
  std::size_t free = 0;
  std::size_t total = 0;
  Engine engine;
  const auto num_blocks = engine.multiply(on_a.view(), on_a.view(), {}).num_blocks;
  check(cudaDeviceSynchronize(), "work");
  check(cudaMemGetInfo(&free, &total), "device memory");
  const std::size_t before = free;
  engine.trim();
  check(cudaMemGetInfo(&free, &total), "device memory");
  CHECK(free > before);
  std::byte* slab = nullptr;  // all but what no product fits
  const std::size_t slab_bytes = free - (std::size_t{64} << 20);
  if (cudaMalloc(reinterpret_cast<void**>(&slab), slab_bytes) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    WARN("the device is in use");
    return;
  }
  std::size_t used = 0;
  const DeviceCall call{
      .allocator = {.allocate = [&](std::uint64_t bytes, std::uint64_t alignment, CUstream_st*) -> void* {
                      used = (used + alignment - 1) / alignment * alignment;
                      if (bytes > slab_bytes - used) return nullptr;
                      return slab + std::exchange(used, used + bytes);
                    },
                    .release = [](void*, CUstream_st*) {},
                    .serves_workspace = true}};
  CHECK(engine.multiply(on_a.view(), on_a.view(), call).num_blocks == num_blocks);
  check(cudaDeviceSynchronize(), "work");
  cudaFree(slab);
}

TEST_CASE("device arrays: operands on two devices") {
  int num_devices = 0;
  check(cudaGetDeviceCount(&num_devices), "devices");
  if (num_devices < 2) {
    WARN("needs two devices");
    return;
  }
  const BlockMatrix a = test::random_matrix(8 * 40, 8, 400, 2047, 7);
  const DeviceMatrix<std::int32_t> on_first(a);
  check(cudaSetDevice(1), "device");
  const DeviceMatrix<std::int32_t> on_second(a);
  check(cudaSetDevice(0), "device");
  Engine engine({.device = 0});
  CHECK(test::message_of<Error>([&] { engine.multiply(on_first.view(), on_second.view(), {}); }).find("device 1") !=
        std::string::npos);
  CHECK((blocks_on_host<std::int32_t>(engine.multiply(on_first.view(), on_first.view(), {}), a.n) ==
         test::oracle_multiply(a, a)));
}

TEST_CASE("device arrays: what is wrong is reported with its place, and the next product is right") {
  Engine engine;
  const BlockMatrix a = test::random_matrix(4 * 50, 4, 600, 2047, 9);
  const ProductMatrix expected = test::oracle_multiply(a, a);
  const Arrays good = as_bsr(a);
  const DeviceMatrix<std::int32_t> on_a(a);
  const auto message = [&](const Arrays& bad) {
    const DeviceMatrix<std::int32_t> on_bad(bad);
    const std::string first = test::message_of<Error>([&] { engine.multiply(on_bad.view(), on_a.view(), {}); });
    const std::string second = test::message_of<Error>([&] { engine.multiply(on_a.view(), on_bad.view(), {}); });
    CHECK(first.starts_with("matrix A"));
    CHECK(second.starts_with("matrix B"));
    CHECK((multiply_on_device<std::int32_t>(engine, a, a, {}) == expected));
    return first;
  };
  Arrays bad = good;
  bad.indices[77] = 50;
  CHECK(message(bad).find("indices[77]: the block column is not in 0 to 49") != std::string::npos);
  bad.indices[77] = -1;
  CHECK(message(bad).find("indices[77]") != std::string::npos);
  bad = good;
  bad.indptr[10] = bad.indptr[11] + 1;
  CHECK(message(bad).find("indptr[10] and indptr[11]") != std::string::npos);
  bad = good;
  bad.indptr[0] = 1;
  CHECK(message(bad).find("indptr[0] and indptr[1]") != std::string::npos);
  bad.indptr[0] = -5;
  CHECK(message(bad).find("indptr[0] and indptr[1]") != std::string::npos);
  bad = good;
  bad.indptr.back() = 1 << 30;
  CHECK(message(bad).find("indptr[49] and indptr[50]") != std::string::npos);
  bad = good;
  bad.indices[static_cast<std::size_t>(bad.indptr[20]) + 1] = bad.indices[static_cast<std::size_t>(bad.indptr[20])];
  CHECK(message(bad).find("was stored before in indices[") != std::string::npos);

  DeviceBsrView host = on_a.view();
  host.indices = good.indices.data();
  CHECK_THROWS_AS(engine.multiply(host, on_a.view(), {}), DeviceError);
  void* managed = nullptr;
  check(cudaMallocManaged(&managed, good.indices.size() * 4), "managed memory");
  host.indices = managed;
  CHECK_THROWS_AS(engine.multiply(host, on_a.view(), {}), DeviceError);
  cudaFree(managed);
  DeviceBsrView wrong = on_a.view();
  wrong.m = 3;
  CHECK_THROWS_AS(engine.multiply(wrong, wrong, {}), FormatError);
  wrong = on_a.view();
  wrong.index_bytes = 2;
  CHECK_THROWS_AS(engine.multiply(wrong, on_a.view(), {}), FormatError);
  ProductOptions options;
  options.verify_full = true;
  CHECK_THROWS_AS(engine.multiply(on_a.view(), on_a.view(), {}, options), UsageError);
  CHECK((multiply_on_device<std::int32_t>(engine, a, a, {}) == expected));
}

TEST_CASE("device arrays: random indices end in a report or a product") {
  Engine engine;
  std::mt19937 random(11);
  const auto number = [&](int below) { return static_cast<std::int32_t>(random() % static_cast<unsigned>(below)); };
  unsigned num_wrong = 0;
  for (int round = 0; round < 1000; ++round) {
    const int rows = 1 + number(20);
    const int blocks = number(60);
    Arrays arrays{.rows = static_cast<std::uint64_t>(rows) * 2, .cols = static_cast<std::uint64_t>(rows) * 2, .m = 2};
    arrays.indptr.push_back(0);
    for (int r = 0; r < rows; ++r) {
      arrays.indptr.push_back(r + 1 == rows ? blocks
                                            : std::max<std::int64_t>(arrays.indptr.back(), number(blocks + 1)));
    }
    for (int x = 0; x < blocks; ++x) arrays.indices.push_back(number(rows));
    arrays.data.assign(static_cast<std::size_t>(blocks) * 4, 3);
    for (int damage = number(3); damage > 0; --damage) {
      auto& to = number(2) == 0 || blocks == 0 ? arrays.indptr : arrays.indices;
      to[static_cast<std::size_t>(number(static_cast<int>(to.size())))] =
          number(4) == 0 ? static_cast<std::int32_t>(random()) : number(80) - 10;
    }
    const DeviceMatrix<std::int32_t> one(arrays);
    if (test::message_of<Error>([&] { engine.multiply(one.view(), one.view(), {}); }) != "no such error") ++num_wrong;
  }
  CHECK(num_wrong > 300);
  check(cudaDeviceSynchronize(), "the context is sound");
  const BlockMatrix a = test::random_matrix(8 * 20, 8, 100, 2047, 7);
  CHECK((multiply_on_device<std::int32_t>(engine, a, a, {}) == test::oracle_multiply(a, a)));
}

TEST_CASE("device arrays: threads on one engine, memory that stays flat") {
  Engine engine;
  const BlockMatrix a = test::random_matrix(8 * 40, 8, 400, 2047, 7);
  const ProductMatrix expected = test::oracle_multiply(a, a);
  const DeviceMatrix<std::int32_t> on_a(a);
  const auto free_bytes = [] {
    std::size_t free = 0;
    std::size_t total = 0;
    check(cudaMemGetInfo(&free, &total), "device memory");
    return free;
  };
  std::atomic<int> num_wrong{0};
  std::size_t before = 0;
  for (int round = 0; round < 2; ++round) {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        cudaStream_t stream = nullptr;
        if (cudaStreamCreate(&stream) != cudaSuccess) ++num_wrong;
        for (int x = 0; x < 100; ++x) {
          const DeviceBsrMatrix c = engine.multiply(on_a.view(), on_a.view(), {.stream = stream});
          if (x % 25 == 0 && blocks_on_host<std::int32_t>(c, a.n) != expected) ++num_wrong;
        }
        cudaStreamSynchronize(stream);
        cudaStreamDestroy(stream);
      });
    }
    threads.clear();
    if (round == 0) before = free_bytes();
  }
  CHECK(num_wrong == 0);
  CHECK(free_bytes() + (std::size_t{32} << 20) >= before);
}
