// Products of all element types but u16 as arrays in device memory: the oracle's bits, plans, errors.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "kernels/chains/launch.hpp"
#include "kernels/check.hpp"
#include "spmm/spmm.hpp"
#include "support/catch.hpp"
#include "support/chain_cases.hpp"
#include "support/on_device.hpp"

namespace spmm::test {
namespace {

template <class T, class Index>
void check_product(Engine& engine, std::uint64_t seed) {
  using Sum = ProductOf<T>;
  Random random(seed);
  const std::uint32_t m = random_side(random);
  INFO(element_name(kElementType<T>) << ", seed " << seed << ", side " << m);
  const auto [a, b] = random_operands<T>(m, 300000, random);
  const auto order_a = order_of(a.at, seed % 3 == 0, random);
  const auto order_b = order_of(b.at, seed % 3 == 0, random);
  const DeviceMatrix<Index, T> on_a(arrays_of(a, order_a));
  const DeviceMatrix<Index, T> on_b(arrays_of(b, order_b));
  // C's blocks are given: the product is added to it, in one call and in place.
  const GivenResult<T> given = random_result(a, b, seed % 2 == 0, random);
  const DeviceMatrix<Index, Sum> on_c(arrays_of(given, m));
  const DeviceCall onto{.c = on_c.view(),
                        .is_mask = seed % 2 != 0,
                        .alpha = kSaturates<T> ? nullptr : &given.alpha,
                        .beta = given.beta == 0 ? nullptr : &given.beta};
  const auto wanted = given_oracle(a, b, given);
  const DeviceBsrMatrix added = engine.multiply(on_a.view(), on_b.view(), onto);
  CHECK(has_bits(result_on_host<Sum, Index>(added, added.values.get()), wanted));
  DevicePlan adding = engine.plan(on_a.view(), on_b.view(), onto);
  const OnDevice<Sum> in_place(arrays_of(given, m).data);
  adding.multiply(on_a.view().values, on_b.view().values, in_place.data(), nullptr, onto.alpha, onto.beta);
  CHECK(has_bits(result_on_host<Sum, Index>(adding.pattern(), in_place.data()), wanted));
  if constexpr (kSaturates<T>) {
    CHECK(added.num_saturated ==
          static_cast<std::uint64_t>(std::count(wanted.values.begin(), wanted.values.end(), kMaxVal)));
    CHECK(adding.count_saturated(in_place.data(), nullptr) == added.num_saturated);
    return;  // all other products have kernels of their own
  }
  const DeviceBsrMatrix c = engine.multiply(on_a.view(), on_b.view(), {});
  CHECK(c.type == result_of(kElementType<T>));
  CHECK(is_product(result_on_host<Sum, Index>(c, c.values.get()), a, b));

  // Two calls of a plan with other values.
  DevicePlan plan = engine.plan(on_a.view(), on_b.view(), {});
  const OnDevice<Sum> values(std::vector<Sum>(plan.pattern().num_blocks * m * m));
  for (int call = 0; call < 2; ++call) {
    const auto kind = static_cast<ChainValueKind>(random() % kNumValueKinds);
    const auto other_a = random_chain_matrix<T>(a.at, m, kind, random);
    const auto other_b = random_chain_matrix<T>(b.at, m, kind, random);
    const OnDevice<T> of_a(arrays_of(other_a, order_a).data);
    const OnDevice<T> of_b(arrays_of(other_b, order_b).data);
    plan.multiply(of_a.data(), of_b.data(), values.data(), nullptr);
    CHECK(is_product(result_on_host<Sum, Index>(plan.pattern(), values.data()), other_a, other_b));
  }
}

/// A batch of small products.
template <class T, class Index>
void check_many(Engine& engine, std::uint64_t seed) {
  Random random(seed);
  const std::uint32_t m = random_side(random);
  INFO(element_name(kElementType<T>) << ", many, seed " << seed << ", side " << m);
  std::vector<ChainOperands<T>> operands;
  std::vector<DeviceMatrix<Index, T>> arrays;
  std::vector<DevicePair> products;
  for (std::uint64_t x = 0; x < 1 + seed % 7; ++x) operands.push_back(random_operands<T>(m, 3000, random));
  for (const auto& [a, b] : operands) {
    arrays.emplace_back(arrays_of(a, order_of(a.at, seed % 2 == 0, random)));
    arrays.emplace_back(arrays_of(b, order_of(b.at, seed % 2 == 0, random)));
  }
  for (std::size_t x = 0; x < operands.size(); ++x) {
    products.push_back({.a = arrays[2 * x].view(), .b = arrays[2 * x + 1].view()});
  }
  const DeviceBsrBatch batch = engine.multiply_many(products, {});
  const std::vector<std::uint64_t> first_block = fetch_first_blocks(batch);
  const auto indices = on_host<Index>(batch.all.indices.get(), batch.all.num_blocks);
  const auto values = on_host<ProductOf<T>>(batch.all.values.get(), batch.all.num_blocks * m * m);
  const auto indptrs = on_host<Index>(batch.indptrs.get(), batch.all.rows / m + products.size());
  for (std::size_t x = 0; x < operands.size(); ++x) {
    const auto& [a, b] = operands[x];
    const auto part = [&](const auto& all, std::uint64_t begin, std::uint64_t end) {
      return std::vector(all.begin() + static_cast<std::ptrdiff_t>(begin),
                         all.begin() + static_cast<std::ptrdiff_t>(end));
    };
    BsrMatrix<ProductOf<T>> c{.rows = std::uint64_t{a.at.rows} * m, .cols = std::uint64_t{b.at.cols} * m, .m = m};
    const auto rows = part(indptrs, batch.first_row[x] + x, batch.first_row[x + 1] + x + 1);
    const auto columns = part(indices, first_block[x], first_block[x + 1]);
    c.indptr.assign(rows.begin(), rows.end());
    c.indices.assign(columns.begin(), columns.end());
    c.data = part(values, first_block[x] * m * m, first_block[x + 1] * m * m);
    CHECK(is_product(c, a, b));
  }
}

/// Values: count = products, unless the environment has another number: under a sanitizer each takes seconds.
template <class T>
void check_products(std::uint64_t seed, int count) {
  Engine engine;
  if (const char* const wanted = std::getenv("SPMM_TEST_PRODUCTS")) count = std::atoi(wanted);
  for (int x = 0; x < count; ++x) {
    check_product<T, std::int32_t>(engine, seed + static_cast<std::uint64_t>(x));
    check_product<T, std::int64_t>(engine, seed + static_cast<std::uint64_t>(x) + 500);
    if constexpr (!kSaturates<T>) {  // u16 drops blocks of zeros: many_products_test
      if (x % 4 == 0) check_many<T, std::int32_t>(engine, seed + static_cast<std::uint64_t>(x));
    }
  }
}

/// Tiny operands of f32, 2 x 2 blocks of side 2.
struct Tiny {
  ChainMatrix<float> matrix{
      .at = {.rows = 2, .cols = 2, .ptr = {0, 2, 3}, .col = {0, 1, 1}}, .m = 2, .values = std::vector<float>(12, 1)};
  DeviceMatrix<std::int32_t, float> arrays{arrays_of(matrix, {0, 1, 2})};
};

using MakePattern = std::function<ChainPattern(Random&)>;

MakePattern uniform(std::uint32_t num_rows, double blocks_per_row) {
  return [=](Random& random) { return random_pattern(num_rows, num_rows, blocks_per_row / num_rows, false, random); };
}

/// 27 points, side^3 rows.
ChainPattern stencil(std::int64_t side) {
  ChainPattern at{.rows = static_cast<std::uint32_t>(side * side * side)};
  at.cols = at.rows;
  for (std::int64_t row = 0; row < at.rows; ++row) {
    const std::int64_t x = row / side / side;
    const std::int64_t y = row / side % side;
    const std::int64_t z = row % side;
    for (std::int64_t i = std::max<std::int64_t>(0, x - 1); i <= std::min(side - 1, x + 1); ++i) {
      for (std::int64_t j = std::max<std::int64_t>(0, y - 1); j <= std::min(side - 1, y + 1); ++j) {
        for (std::int64_t k = std::max<std::int64_t>(0, z - 1); k <= std::min(side - 1, z + 1); ++k) {
          at.col.push_back(static_cast<std::uint32_t>((i * side + j) * side + k));
        }
      }
    }
    at.ptr.push_back(static_cast<std::uint32_t>(at.col.size()));
  }
  return at;
}

/// Prints the median milliseconds of a call, and of a plan's product, of two matrices.
template <class T>
void time_product(const char* name, std::uint32_t m, const MakePattern& pattern) {
  if constexpr (kSaturates<T>) return;  // has kernels of its own
  Random random(1);
  const auto matrix = [&] {
    ChainMatrix<T> made{.at = pattern(random), .m = m};
    const ChainPattern row{.rows = 1, .cols = 64, .ptr = {0, 64}, .col = std::vector<std::uint32_t>(64)};
    const std::vector<T> some = random_chain_matrix<T>(row, m, ChainValueKind::normal, random).values;
    while (made.values.size() < made.at.col.size() * m * m) {
      made.values.insert(made.values.end(), some.begin(), some.end());  // as many random ones would take minutes
    }
    made.values.resize(made.at.col.size() * m * m);
    return DeviceMatrix<std::int32_t, T>(arrays_of(made, order_of(made.at, false, random)));
  };
  const DeviceMatrix<std::int32_t, T> a = matrix();
  const DeviceMatrix<std::int32_t, T> b = matrix();
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  const auto median_ms = [&](const auto& run) {
    std::vector<double> times;
    for (int repeat = 0; repeat < 13; ++repeat) {
      check(cudaStreamSynchronize(stream), "stream");
      const auto start = std::chrono::steady_clock::now();
      run();
      check(cudaStreamSynchronize(stream), "stream");
      times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    }
    std::nth_element(times.begin(), times.begin() + 6, times.end());
    return times[6];
  };
  {
    Engine engine;
    const double call = median_ms([&] { engine.multiply(a.view(), b.view(), {.stream = stream}); });
    DevicePlan plan = engine.plan(a.view(), b.view(), {.stream = stream});
    const DeviceBsrMatrix& pattern_c = plan.pattern();
    void* c = nullptr;
    check(cudaMalloc(&c, std::max<std::uint64_t>(1, pattern_c.num_blocks) * m * m * sizeof(ProductOf<T>)), "elements");
    const ProductOf<T> two = 2;
    const auto time_plan = [&](DevicePlan& of, const void* beta) {
      return median_ms([&] { of.multiply(a.view().values, b.view().values, c, stream, nullptr, beta); });
    };
    const double planned = time_plan(plan, nullptr);
    const double accumulated = time_plan(plan, &two);
    BsrMatrix<ProductOf<T>> tenth{.rows = pattern_c.rows, .cols = pattern_c.cols, .m = m};
    for (const std::int64_t begin : on_host<std::int32_t>(pattern_c.indptr.get(), pattern_c.rows / m + 1)) {
      tenth.indptr.push_back((begin + 9) / 10);
    }
    const auto columns = on_host<std::int32_t>(pattern_c.indices.get(), pattern_c.num_blocks);
    for (std::size_t x = 0; x < columns.size(); x += 10) tenth.indices.push_back(columns[x]);
    const DeviceMatrix<std::int32_t, ProductOf<T>> mask(tenth);
    const DeviceCall masking{.stream = stream, .c = mask.view(), .is_mask = true};
    const double masked = median_ms([&] { engine.multiply(a.view(), b.view(), masking); });
    DevicePlan masked_plan = engine.plan(a.view(), b.view(), masking);
    std::printf("%s %s: call %.3f ms, plan %.3f ms, plan with beta %.3f ms; a tenth: call %.3f ms, plan %.3f ms\n",
                name, std::string(element_name(kElementType<T>)).c_str(), call, planned, accumulated, masked,
                time_plan(masked_plan, nullptr));
    std::fflush(stdout);
    cudaFree(c);
  }
  cudaStreamDestroy(stream);
}

}  // namespace

#define SPMM_TEST_TYPE(T, name)                                     \
  TEST_CASE("chains on a GPU give the oracle's bits: " #name) {     \
    check_products<T>(1000, std::is_floating_point_v<T> ? 60 : 20); \
  }
SPMM_ELEMENT_TYPES(SPMM_TEST_TYPE)
#undef SPMM_TEST_TYPE

TEST_CASE("mma.sync of f64 gives the bits of fma") {
  // Where it does, src/cuda/chains.cpp may use it: today on compute capability 9.
  int major = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), "device");
  if (major < 8) return;
  constexpr std::uint32_t kBlocks = 4000;  // of A, of B, and of C
  constexpr std::uint32_t kPairs = 3;      // of a C block
  Random random(1);
  std::vector<std::uint32_t> c_links(1, 0);
  std::vector<kernels::Link> links;
  for (std::uint32_t x = 0; x < kBlocks; ++x) {
    for (std::uint32_t pair = 0; pair < kPairs; ++pair) {
      const auto a = static_cast<std::uint32_t>(random() % kBlocks);
      links.push_back({pair == 0 ? a | kernels::kFirstOfBlock : a, static_cast<std::uint32_t>(random() % kBlocks)});
    }
    c_links.push_back(static_cast<std::uint32_t>(links.size()));
  }
  links.push_back({});
  const OnDevice<std::uint32_t> on_c_links(c_links);
  const OnDevice<kernels::Link> on_links(links);
  for (const std::uint32_t m : {3u, 4u, 7u, 8u, 16u}) {
    for (unsigned kind = 0; kind < kNumValueKinds; ++kind) {
      const auto values = [&] {
        ChainPattern column{.rows = kBlocks, .cols = 1, .ptr = {}, .col = std::vector<std::uint32_t>(kBlocks)};
        return random_chain_matrix<double>(column, m, static_cast<ChainValueKind>(kind), random).values;
      };
      const OnDevice<double> a(values());
      const OnDevice<double> b(values());
      const auto product = [&](bool by_mma) {
        const std::size_t count = std::size_t{kBlocks} * m * m;
        const OnDevice<double> c{std::vector<double>(count)};
        kernels::launch_multiply_chains(ElementType::f64,
                                        {.c_links = on_c_links.data(),
                                         .links = on_links.data(),
                                         .num_c_blocks = kBlocks,
                                         .num_rows = kBlocks,
                                         .m = m,
                                         .has_exact_mma = by_mma},
                                        {.a = a.data(), .b = b.data(), .c = c.data()}, nullptr);
        return on_host<std::uint64_t>(c.data(), count);
      };
      const bool is_equal = product(true) == product(false);
      INFO("side " << m << ", values of kind " << kind << ", compute capability " << major);
      if (major == 9) CHECK(is_equal);
      if (!is_equal) WARN("mma.sync differs");
    }
  }
}

TEST_CASE("pairs that do not fit the memory are listed for some rows at a time") {
  Random random(7);
  const ChainPattern at = random_pattern(600, 600, 0.2, false, random);
  const auto matrix = random_chain_matrix<float>(at, 2, ChainValueKind::wide, random);
  const BsrMatrix<float> arrays = arrays_of(matrix, order_of(at, true, random));
  const DeviceMatrix<std::int32_t, float> on_device(arrays);
  Engine free;
  const BsrMatrix<float> wanted = free.multiply(arrays.view(), arrays.view());
  constexpr std::uint64_t kResultBytes = 600u * 600 * 20;  // and 8.6 million pairs of 8 bytes
  for (const std::uint64_t limit : {kResultBytes * 3, kResultBytes * 5, kResultBytes * 9}) {
    INFO("limit " << limit);
    Engine engine({.memory_limit_bytes = limit});
    Report report;
    const DeviceBsrMatrix c = engine.multiply(on_device.view(), on_device.view(), {}, {}, &report);
    CHECK(report.num_panels > 1);
    CHECK(report.peak_device_bytes <= limit);
    CHECK(result_on_host<float, std::int32_t>(c, c.values.get()) == wanted);
    ProductOptions options;
    options.backend = Backend::cuda;
    CHECK(engine.multiply(arrays.view(), arrays.view(), options, &report) == wanted);
    CHECK(report.num_panels > 1);
  }
  Engine small({.memory_limit_bytes = kResultBytes});
  CHECK_THROWS_AS(small.multiply(on_device.view(), on_device.view(), {}), OutOfMemory);
}

TEST_CASE("2^31 pairs and more") {
  constexpr std::uint32_t kRows = 1600;
  constexpr std::uint32_t kColumns = 1000;
  const auto full = [](std::uint32_t rows, std::uint32_t cols) {
    BsrMatrix<float> matrix{.rows = rows, .cols = cols, .m = 1, .indptr = {0}};
    for (std::uint32_t i = 0; i < rows; ++i) {
      for (std::uint32_t j = 0; j < cols; ++j) matrix.indices.push_back(j);
      matrix.indptr.push_back(static_cast<std::int64_t>(matrix.indices.size()));
    }
    matrix.data.assign(matrix.indices.size(), 1);
    return matrix;
  };
  const DeviceMatrix<std::int32_t, float> a(full(kRows, kRows));
  const DeviceMatrix<std::int32_t, float> b(full(kRows, kColumns));
  Engine engine;
  Report report;
  const DeviceBsrMatrix c = engine.multiply(a.view(), b.view(), {}, {}, &report);
  CHECK(report.pairs == std::uint64_t{kRows} * kRows * kColumns);
  CHECK(report.num_panels > 1);
  const auto values = on_host<float>(c.values.get(), c.num_blocks);
  CHECK(values == std::vector<float>(std::size_t{kRows} * kColumns, kRows));
  CHECK_THROWS_AS(engine.plan(a.view(), b.view(), {}), OutOfMemory);
}

TEST_CASE("a plan of chains is captured in a graph") {
  Engine engine;
  const Tiny tiny;
  DevicePlan plan = engine.plan(tiny.arrays.view(), tiny.arrays.view(), {});
  const OnDevice<float> values(std::vector<float>(plan.pattern().num_blocks * 4));
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream), "stream");
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
  plan.multiply(tiny.arrays.view().values, tiny.arrays.view().values, values.data(), stream);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check(cudaStreamEndCapture(stream, &graph), "capture");
  check(cudaGraphInstantiate(&executable, graph, 0), "graph");
  check(cudaGraphLaunch(executable, stream), "launch");
  check(cudaStreamSynchronize(stream), "stream");
  CHECK(is_product(result_on_host<float, std::int32_t>(plan.pattern(), values.data()), tiny.matrix, tiny.matrix));
  CHECK(plan.count_saturated(nullptr, stream) == 0);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

TEST_CASE("chains of arrays that are wrong, or lie badly") {
  Engine engine;
  Tiny tiny;
  DeviceBsrView view = tiny.arrays.view();
  SECTION("mixed types") {
    view.type = ElementType::f64;
    CHECK_THROWS_AS(engine.multiply(tiny.arrays.view(), view, {}), ShapeError);
  }
  SECTION("a named kernel") {
    ProductOptions options;
    options.kernel = "rows";
    CHECK_THROWS_AS(engine.multiply(view, view, {}, options), UsageError);
  }
  SECTION("a block twice") {
    const OnDevice<std::int32_t> twice(std::vector<std::int32_t>{1, 1, 0});
    view.indices = twice.data();
    CHECK_THROWS_AS(engine.multiply(view, view, {}), FormatError);
  }
  SECTION("a block column out of range") {
    const OnDevice<std::int32_t> outside(std::vector<std::int32_t>{0, 2, 0});
    view.indices = outside.data();
    CHECK_THROWS_AS(engine.multiply(view, view, {}), FormatError);
  }
  SECTION("C lacks a block, or is wrong") {
    const DeviceMatrix<std::int32_t, float> c(
        {.rows = 4, .cols = 4, .m = 2, .indptr = {0, 1, 2}, .indices = {0, 1}, .data = std::vector<float>(8)});
    CHECK_THROWS_AS(engine.multiply(view, view, {.c = c.view()}), ShapeError);
    CHECK(engine.multiply(view, view, {.c = c.view(), .is_mask = true}).num_blocks == 2);
    const OnDevice<std::int32_t> outside(std::vector<std::int32_t>{2, 1});
    DeviceBsrView wrong = c.view();
    wrong.indices = outside.data();
    CHECK_THROWS_AS(engine.multiply(view, view, {.c = wrong, .is_mask = true}), FormatError);
    const float one = 1;
    CHECK_THROWS_AS(engine.multiply(view, view, {.beta = &one}), UsageError);
  }
  SECTION("many of several types") {
    DeviceBsrView other = view;
    other.type = ElementType::i32;
    const std::vector<DevicePair> products{{.a = view, .b = view}, {.a = other, .b = other}};
    CHECK_THROWS_AS(engine.multiply_many(products, {}), UsageError);
  }
  SECTION("values that are not aligned are copied") {
    std::vector<float> moved(1, 0);
    moved.insert(moved.end(), tiny.matrix.values.begin(), tiny.matrix.values.end());
    const OnDevice<float> values(moved);
    view.values = values.data() + 1;
    const DeviceBsrMatrix c = engine.multiply(view, view, {});
    CHECK(is_product(result_on_host<float, std::int32_t>(c, c.values.get()), tiny.matrix, tiny.matrix));
  }
  SECTION("no blocks") {
    ChainMatrix<float> none = tiny.matrix;
    none.at.ptr = {0, 0, 0};
    none.at.col.clear();
    none.values.clear();
    const DeviceMatrix<std::int32_t, float> empty(arrays_of(none, {}));
    const DeviceBsrMatrix c = engine.multiply(empty.view(), view, {});
    CHECK(is_product(result_on_host<float, std::int32_t>(c, c.values.get()), none, tiny.matrix));
  }
}

#define SPMM_TIME_TYPE(T, name)                                                      \
  TEST_CASE("times of chains: " #name, "[.times]") {                                 \
    time_product<T>("S1", 8, uniform(1024, 98));                                     \
    time_product<T>("S2", 4, uniform(8192, 122));                                    \
    time_product<T>("S5", 8, uniform(131072, 7.6));                                  \
    time_product<T>("m = 4, rows of 5", 4, uniform(65536, 5));                       \
    time_product<T>("m = 3, rows of 5", 3, uniform(65536, 5));                       \
    time_product<T>("m = 1, rows of 15", 1, uniform(65536, 15));                     \
    time_product<T>("m = 1, stencil of 27", 1, [](Random&) { return stencil(64); }); \
  }
SPMM_ELEMENT_TYPES(SPMM_TIME_TYPE)

}  // namespace spmm::test
