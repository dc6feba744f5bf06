// Many products in device memory in one call: each equals the CPU's, and what is wrong with one is reported by its
// number.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/check.hpp"
#include "spmm/spmm.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/on_device.hpp"

namespace {

using namespace spmm;

using test::on_host;
using test::OnDevice;
using Operand = BsrMatrix<std::uint16_t>;
using ManyOperands = std::vector<std::pair<Operand, Operand>>;

/// The arrays of many operands, one behind the other in three allocations. Values: elements begin `lead` elements
/// behind a border of 16 bytes.
template <class Index>
class ManyOnDevice {
 public:
  explicit ManyOnDevice(const ManyOperands& operands, std::size_t lead = 0)
      : indptr_(joined<Index>(operands, &Operand::indptr, 0)),
        indices_(joined<Index>(operands, &Operand::indices, 0)),
        values_(joined<std::uint16_t>(operands, &Operand::data, lead)) {
    const Index* indptr = indptr_.data();
    const Index* indices = indices_.data();
    const std::uint16_t* values = values_.data() + lead;
    const auto view = [&](const Operand& matrix) {
      const DeviceBsrView made{.rows = matrix.rows,
                               .cols = matrix.cols,
                               .m = matrix.m,
                               .num_blocks = matrix.indices.size(),
                               .indptr = indptr,
                               .indices = indices,
                               .index_bytes = sizeof(Index),
                               .values = values};
      indptr += matrix.indptr.size();
      indices += matrix.indices.size();
      values += matrix.data.size();
      return made;
    };
    for (const auto& operand : operands) {
      pairs.emplace_back();
      pairs.back().a = view(operand.first);
      pairs.back().b = view(operand.second);
    }
  }

  std::vector<DevicePair> pairs;

 private:
  template <class To, class From>
  static std::vector<To> joined(const ManyOperands& operands, std::vector<From> Operand::*part, std::size_t lead) {
    std::vector<To> all(lead);
    for (const auto& operand : operands) {
      for (const Operand* const matrix : {&operand.first, &operand.second}) {
        for (const From value : matrix->*part) all.push_back(static_cast<To>(value));
      }
    }
    return all;
  }

  OnDevice<Index> indptr_;
  OnDevice<Index> indices_;
  OnDevice<std::uint16_t> values_;
};

/// Block columns of a row in any order.
Operand random_operand(std::mt19937& random, std::uint32_t rows, std::uint32_t cols, std::uint32_t m, double density,
                       std::uint32_t max_value) {
  Operand matrix{.rows = std::uint64_t{rows} * m, .cols = std::uint64_t{cols} * m, .m = m};
  std::bernoulli_distribution is_stored(density);
  std::uniform_int_distribution<std::uint32_t> element(0, max_value);
  matrix.indptr.push_back(0);
  for (std::uint32_t i = 0; i < rows; ++i) {
    std::vector<std::int64_t> columns;
    for (std::uint32_t j = 0; j < cols; ++j) {
      if (is_stored(random)) columns.push_back(j);
    }
    std::shuffle(columns.begin(), columns.end(), random);
    matrix.indices.insert(matrix.indices.end(), columns.begin(), columns.end());
    matrix.indptr.push_back(static_cast<std::int64_t>(matrix.indices.size()));
  }
  matrix.data.resize(matrix.indices.size() * m * m);
  for (std::uint16_t& value : matrix.data) value = static_cast<std::uint16_t>(element(random));
  return matrix;
}

/// Operands that all have as many blocks. Values: num_blocks <= rows * cols.
Operand operand_of(std::mt19937& random, std::uint32_t rows, std::uint32_t cols, std::uint32_t m,
                   std::size_t num_blocks) {
  Operand matrix = random_operand(random, rows, cols, m, 1, 65535);
  std::vector<std::size_t> places(matrix.indices.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::shuffle(places.begin(), places.end(), random);
  places.resize(num_blocks);
  std::sort(places.begin(), places.end());
  Operand kept{.rows = matrix.rows, .cols = matrix.cols, .m = m, .indptr = {0}};
  for (std::uint32_t i = 0; i < rows; ++i) {
    const auto end = std::lower_bound(places.begin(), places.end(), std::size_t{i + 1} * cols);
    kept.indptr.push_back(end - places.begin());
  }
  for (const std::size_t place : places) kept.indices.push_back(matrix.indices[place]);
  matrix.data.resize(num_blocks * m * m);
  kept.data = std::move(matrix.data);
  return kept;
}

/// Products of one shape and number of blocks.
ManyOperands like_operands(std::mt19937& random, std::uint32_t m, unsigned count, std::size_t num_blocks = 9) {
  ManyOperands operands;
  for (unsigned x = 0; x < count; ++x) {
    operands.emplace_back(operand_of(random, 5, 7, m, num_blocks), operand_of(random, 7, 3, m, num_blocks));
  }
  return operands;
}

/// Products of many shapes; every fifth operand has no blocks.
ManyOperands random_operands(std::mt19937& random, std::uint32_t m, unsigned count, std::uint32_t max_value) {
  ManyOperands operands;
  const std::uint32_t most = std::max(2u, 80u / m);
  const auto side = [&] { return 1 + static_cast<std::uint32_t>(random() % most); };
  const auto density = [&] { return random() % 5 == 0 ? 0.0 : 0.02 + 0.1 * static_cast<double>(random() % 8); };
  for (unsigned x = 0; x < count; ++x) {
    const std::uint32_t rows = side();
    const std::uint32_t inner = side();
    const std::uint32_t cols = side();
    Operand a = random_operand(random, rows, inner, m, density(), max_value);
    Operand b = random_operand(random, inner, cols, m, density(), max_value);
    operands.emplace_back(std::move(a), std::move(b));
  }
  return operands;
}

/// Results as matrices of their own.
template <class Index>
std::vector<BsrMatrix<std::uint32_t>> split(const DeviceBsrBatch& batch, const ManyOperands& operands) {
  const DeviceBsrMatrix& all = batch.all;
  const std::size_t rows = all.rows / all.m;
  const auto indptr = on_host<Index>(all.indptr.get(), rows + 1);
  const auto indptrs = on_host<Index>(batch.indptrs.get(), rows + operands.size());
  const auto indices = on_host<Index>(all.indices.get(), all.num_blocks);
  const auto values = on_host<std::uint32_t>(all.values.get(), all.num_blocks * all.m * all.m);
  const auto first_block = on_host<Index>(batch.first_block.get(), operands.size() + 1);
  REQUIRE(batch.num_products == operands.size());
  std::vector<std::uint64_t> first_row = batch.first_row;
  for (std::size_t x = 0; first_row.size() <= operands.size(); ++x) {  // of stacks
    first_row.push_back(x * operands[0].first.rows / all.m);
  }
  REQUIRE(first_row.size() == operands.size() + 1);
  REQUIRE(first_row.back() == rows);
  REQUIRE(static_cast<std::uint64_t>(first_block.back()) == all.num_blocks);
  std::vector<BsrMatrix<std::uint32_t>> results;
  for (std::size_t x = 0; x < operands.size(); ++x) {
    const std::size_t begin = first_row[x];
    const std::size_t end = first_row[x + 1];
    const auto first = static_cast<std::size_t>(first_block[x]);
    const auto last = static_cast<std::size_t>(first_block[x + 1]);
    const std::size_t elements = std::size_t{all.m} * all.m;
    BsrMatrix<std::uint32_t> result{
        .rows = operands[x].first.rows, .cols = operands[x].second.cols, .m = all.m, .indptr = {}, .indices = {}};
    const auto at = [](const auto& of, std::size_t place) { return of.begin() + static_cast<std::ptrdiff_t>(place); };
    result.indptr.assign(at(indptrs, begin + x), at(indptrs, end + x + 1));
    result.indices.assign(at(indices, first), at(indices, last));
    result.data.assign(at(values, first * elements), at(values, last * elements));
    bool is_same = true;
    for (std::size_t row = begin; row <= end; ++row) {
      is_same = is_same && indptr[row] - first_block[x] == indptrs[row + x];
    }
    REQUIRE(is_same);
    results.push_back(std::move(result));
  }
  return results;
}

/// Products that all have the sizes of the first one, at the distances of the first two.
DeviceStacks stacked(const std::vector<DevicePair>& pairs) {
  const auto stack = [&](DeviceBsrView DevicePair::*operand) {
    const DeviceBsrView& first = pairs[0].*operand;
    const DeviceBsrView& second = pairs[std::min<std::size_t>(1, pairs.size() - 1)].*operand;
    const auto distance = [](const void* from, const void* to, std::size_t item) {
      return static_cast<std::size_t>(static_cast<const std::byte*>(to) - static_cast<const std::byte*>(from)) / item;
    };
    return DeviceBsrStack{.first = first,
                          .strides = {.indptr = distance(first.indptr, second.indptr, first.index_bytes),
                                      .indices = distance(first.indices, second.indices, first.index_bytes),
                                      .values = distance(first.values, second.values, sizeof(std::uint16_t))}};
  };
  return {.a = stack(&DevicePair::a), .b = stack(&DevicePair::b), .num_products = pairs.size()};
}

DeviceBsrBatch multiply(Engine& engine, const std::vector<DevicePair>& pairs, const DeviceCall& call,
                        Report* report = nullptr) {
  return engine.multiply_many(pairs, call, {}, report);
}

DeviceBsrBatch multiply(Engine& engine, const DeviceStacks& stacks, const DeviceCall& call, Report* report = nullptr) {
  return engine.multiply_stacks(stacks, call, {}, report);
}

/// One call; each result, or one in `stride`, equals the CPU's. Values: products = the operands on the device, listed
/// or stacked.
template <class Index, class Products>
void require_right_of(Engine& engine, const ManyOperands& operands, const Products& products,
                      const DeviceCall& call = {}, std::size_t stride = 1) {
  Report report;
  const DeviceBsrBatch batch = multiply(engine, products, call, &report);
  check(cudaStreamSynchronize(call.stream), "stream");
  std::uint64_t num_saturated = 0;
  const auto results = split<Index>(batch, operands);
  for (std::size_t x = 0; x < operands.size(); x += stride) {
    INFO("product " << x);
    ProductOptions on_cpu;
    on_cpu.backend = Backend::cpu;
    Report alone;
    const auto expected = engine.multiply(operands[x].first.view(), operands[x].second.view(), on_cpu, &alone);
    REQUIRE((results[x] == expected));
    num_saturated += alone.saturated_elements;
  }
  CHECK(report.saturated_elements == batch.all.num_saturated);
  if (stride == 1) CHECK(batch.all.num_saturated == num_saturated);
}

template <class Index>
void require_right(Engine& engine, const ManyOperands& operands, std::size_t lead = 0, const DeviceCall& call = {}) {
  const ManyOnDevice<Index> on_device(operands, lead);
  require_right_of<Index>(engine, operands, on_device.pairs, call);
}

template <class Products>
std::string message_of(Engine& engine, const Products& products) {
  return test::message_of<Error>([&] { multiply(engine, products, {}); });
}

}  // namespace

TEST_CASE("many products: 300 of many shapes equal the CPU's, one by one") {
  Engine engine;
  std::mt19937 random(21);
  for (const std::uint32_t m : {1u, 2u, 3u, 4u, 5u, 8u, 16u, 33u}) {
    INFO("m " << m);
    const std::uint32_t max_value = m % 2 == 0 ? 65535 : 4095;
    require_right<std::int32_t>(engine, random_operands(random, m, 38, max_value), m % 4);
  }
  require_right<std::int64_t>(engine, random_operands(random, 4, 20, 65535), 1);
}

TEST_CASE("many products: none, one, only empty ones, streams and allocators") {
  Engine engine;
  std::mt19937 random(22);
  const DeviceBsrBatch none = engine.multiply_many({}, {});
  CHECK(none.first_row == std::vector<std::uint64_t>{0});
  CHECK(none.all.num_blocks == 0);
  require_right<std::int32_t>(engine, random_operands(random, 8, 1, 65535));

  ManyOperands empty;
  for (int x = 0; x < 3000; ++x) {
    empty.emplace_back(random_operand(random, 2, 3, 4, 0, 1), random_operand(random, 3, 1, 4, 0, 1));
  }
  require_right<std::int32_t>(engine, empty);
  empty.emplace_back(random_operand(random, 30, 20, 4, 0.5, 65535), random_operand(random, 20, 9, 4, 0.5, 65535));
  require_right<std::int32_t>(engine, empty);

  // Operands in the allocations of two owners by turns.
  ManyOperands operands = random_operands(random, 4, 12, 2047);
  const ManyOperands others = random_operands(random, 4, 12, 2047);
  const ManyOnDevice<std::int32_t> first(operands);
  const ManyOnDevice<std::int32_t> second(others);
  std::vector<DevicePair> pairs = first.pairs;
  for (std::size_t x = 0; x < pairs.size(); x += 2) {
    operands[x] = others[x];
    pairs[x] = second.pairs[x];
  }
  require_right_of<std::int32_t>(engine, operands, pairs);

  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  int num_held = 0;
  const DeviceCall call{.stream = stream,
                        .allocator = {.allocate = [&](std::uint64_t bytes, std::uint64_t, CUstream_st*) -> void* {
                                        void* data = nullptr;
                                        if (cudaMalloc(&data, bytes) != cudaSuccess) return nullptr;
                                        ++num_held;
                                        return data;
                                      },
                                      .release =
                                          [&](void* data, CUstream_st*) {
                                            cudaFree(data);
                                            --num_held;
                                          }}};
  require_right<std::int32_t>(engine, random_operands(random, 8, 40, 2047), 0, call);
  CHECK(num_held == 0);
  check(cudaStreamDestroy(stream), "stream");
}

TEST_CASE("many products: stacks equal the CPU's, one by one") {
  Engine engine;
  std::mt19937 random(24);
  for (const std::uint32_t m : {1u, 2u, 3u, 4u, 5u, 8u, 16u, 33u}) {
    INFO("m " << m);
    const ManyOperands operands = like_operands(random, m, 40);
    require_right_of<std::int32_t>(engine, operands, stacked(ManyOnDevice<std::int32_t>(operands, m % 4).pairs));
  }
  for (const unsigned count : {1u, 2u, 300u}) {
    const ManyOperands operands = like_operands(random, 4, count, 1 + count % 20);
    const ManyOnDevice<std::int64_t> on_device(operands, 1);
    require_right_of<std::int64_t>(engine, operands, stacked(on_device.pairs));
  }
  ManyOperands operands = like_operands(random, 4, 3000, 0);  // empty ones, then those on the right alone
  require_right_of<std::int32_t>(engine, operands, stacked(ManyOnDevice<std::int32_t>(operands).pairs));
  for (auto& operand : operands) operand.first = operand_of(random, 5, 7, 4, 2);
  const ManyOnDevice<std::int32_t> on_device(operands);
  require_right_of<std::int32_t>(engine, operands, stacked(on_device.pairs));
}

TEST_CASE("many products: stacks whose arrays are shared or overlap") {
  Engine engine;
  std::mt19937 random(25);
  constexpr std::size_t kCount = 50;
  constexpr std::size_t kStep = 3;  // elements, less than a block
  for (const std::uint32_t m : {1u, 4u, 8u}) {
    const ManyOperands one = like_operands(random, m, 1);
    Operand wide = one[0].first;
    wide.data = operand_of(random, 9, 9, m, 81).data;
    wide.data.resize(one[0].first.data.size() + kCount * kStep, 77);
    const ManyOnDevice<std::int32_t> on_device({{wide, one[0].second}});
    DeviceStacks stacks = stacked(on_device.pairs);
    REQUIRE(stacks.b.strides.values == 0);
    stacks.a.strides.values = kStep;
    stacks.num_products = kCount;
    ManyOperands operands(kCount, one[0]);
    for (std::size_t x = 0; x < kCount; ++x) {
      const auto begin = wide.data.begin() + static_cast<std::ptrdiff_t>(kStep * x);
      std::copy_n(begin, operands[x].first.data.size(), operands[x].first.data.begin());
    }
    require_right_of<std::int32_t>(engine, operands, stacks);
  }
}

TEST_CASE(
    "many products: what is wrong with one, listed or stacked, is named by its number, and the next call is right") {
  Engine engine;
  std::mt19937 random(26);
  const ManyOperands good = like_operands(random, 4, 40, 20);
  const ManyOnDevice<std::int32_t> on_device(good);
  struct Damage {
    const char* where;
    std::function<void(ManyOperands&)> spoil;
  };
  const std::vector<Damage> all = {
      {"matrix A, product 17, indices[5]:", [](auto& bad) { bad[17].first.indices[5] = 7; }},
      {"matrix A, product 3, indices[1]:", [](auto& bad) { bad[3].first.indices[1] = -1; }},
      {"matrix B, product 39, indices[19]:", [](auto& bad) { bad[39].second.indices.back() = 5; }},
      {"matrix B, product 8, indptr[2] and indptr[3]:",
       [](auto& bad) { bad[8].second.indptr[2] = bad[8].second.indptr[3] + 1; }},
      {"matrix A, product 0, indptr[0] and indptr[1]:", [](auto& bad) { bad[0].first.indptr[0] = 1; }},
      {"matrix A, product 39, indptr[4] and indptr[5]:",
       [](auto& bad) { bad[39].first.indptr.back() = std::numeric_limits<std::int32_t>::max(); }},
      {"matrix A, product 11, indices[",
       [](auto& bad) {
         Operand& a = bad[11].first;
         a.indices[1] = a.indices[0];
         for (std::size_t i = 1; i < a.indptr.size(); ++i) a.indptr[i] = std::max<std::int64_t>(a.indptr[i], 2);
       }},
  };
  for (const Damage& damage : all) {
    ManyOperands bad = good;
    damage.spoil(bad);
    const ManyOnDevice<std::int32_t> on_bad(bad);
    for (const std::string& said : {message_of(engine, on_bad.pairs), message_of(engine, stacked(on_bad.pairs))}) {
      INFO(said);
      CHECK(said.starts_with(damage.where));
      if (said.find("product 11") == std::string::npos) continue;
      CHECK(said.find("stored before in product 11, indices[") != std::string::npos);
    }
    require_right_of<std::int32_t>(engine, good, on_device.pairs);
    require_right_of<std::int32_t>(engine, good, stacked(on_device.pairs));
  }

  std::vector<DevicePair> pairs = on_device.pairs;
  pairs[30].b.indices = good[30].second.indices.data();  // of the host
  CHECK(message_of(engine, pairs).starts_with("matrix B, product 30, indices:"));
  pairs = on_device.pairs;
  pairs[2].b.rows = 32;
  CHECK_THROWS_AS(engine.multiply_many(pairs, {}), ShapeError);
  DeviceStacks stacks = stacked(on_device.pairs);
  stacks.b.first.indices = good[0].second.indices.data();
  CHECK(message_of(engine, stacks).starts_with("matrix B, product 0, indices:"));
  stacks = stacked(on_device.pairs);
  stacks.a.strides.values = std::uint64_t{1} << 40;  // too few values
  CHECK(message_of(engine, stacks).starts_with("matrix A, product 39, end of values:"));
  require_right_of<std::int32_t>(engine, good, stacked(on_device.pairs));
}

TEST_CASE("many products: 30,000 of n = 64, m = 8, 16 blocks each, listed and stacked") {
  std::mt19937 random(27);
  ManyOperands operands;
  for (int x = 0; x < 100; ++x) operands.emplace_back(operand_of(random, 8, 8, 8, 16), operand_of(random, 8, 8, 8, 16));
  while (operands.size() < 30'000) {
    operands.push_back({operands[operands.size() - 100].first, operands[operands.size() - 99].second});
  }
  const ManyOnDevice<std::int32_t> on_device(operands);
  Engine engine;
  require_right_of<std::int32_t>(engine, operands, on_device.pairs, {}, 97);
  require_right_of<std::int32_t>(engine, operands, stacked(on_device.pairs), {}, 89);
}
