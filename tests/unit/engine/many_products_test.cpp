// Many products in device memory: what is found on the host, before a device is started.
#include <cstdint>
#include <string>
#include <vector>

#include "spmm/spmm.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

namespace {

using namespace spmm;

DeviceBsrView empty_matrix(std::uint64_t rows, std::uint64_t cols, std::uint32_t m = 4) {
  return {.rows = rows, .cols = cols, .m = m};
}

template <class Kind>
std::string refusal_of(const std::vector<DevicePair>& products) {
  return test::message_of<Kind>([&] { Engine().multiply_many(products, {}); });
}

template <class Kind>
std::string refusal_of(const DeviceStacks& products) {
  return test::message_of<Kind>([&] { Engine().multiply_stacks(products, {}); });
}

}  // namespace

TEST_CASE("many products: no products need no device") {
  Engine engine;
  const DeviceBsrBatch none = engine.multiply_many({}, {});
  CHECK(none.first_row == std::vector<std::uint64_t>{0});
  CHECK(none.all.num_blocks == 0);
  CHECK(none.indptrs == nullptr);
}

TEST_CASE("many products: sizes that are wrong name the product") {
  const DevicePair good{.a = empty_matrix(8, 12), .b = empty_matrix(12, 4)};
  std::vector<DevicePair> products(5, good);
  products[3].b.rows = 8;
  CHECK(refusal_of<ShapeError>(products).starts_with("matrix A and matrix B, product 3: 8 x 12, m = 4"));
  products[3] = good;
  products[2].a.rows = 6;
  CHECK(refusal_of<FormatError>(products).starts_with("matrix A, product 2, rows: found 6"));
  products[2] = good;
  products[4].b.num_blocks = 4;
  CHECK(refusal_of<FormatError>(products).starts_with("matrix B, product 4, num_blocks: found 4"));
  products[4] = {.a = empty_matrix(8, 8, 2), .b = empty_matrix(8, 8, 2)};
  CHECK(refusal_of<UsageError>(products).starts_with("product 4: m = 2"));
  products[4] = good;
  products[1].a.index_bytes = products[1].b.index_bytes = 8;
  CHECK(refusal_of<UsageError>(products).starts_with("product 1: m = 4, indices of 8 bytes"));
}

TEST_CASE("many products: stacks without products need no device, and wrong sizes are those of all") {
  Engine engine;
  const DeviceBsrBatch none = engine.multiply_stacks({}, {});
  CHECK(none.num_products == 0);
  CHECK(none.all.num_blocks == 0);
  CHECK(fetch_first_blocks(none) == std::vector<std::uint64_t>{0});

  const DeviceStacks good{.a = {.first = empty_matrix(8, 12)}, .b = {.first = empty_matrix(12, 4)}, .num_products = 5};
  DeviceStacks bad = good;
  bad.b.first.rows = 8;
  CHECK(refusal_of<ShapeError>(bad).starts_with("matrix A and matrix B: 8 x 12, m = 4"));
  bad = good;
  bad.a.first.rows = 6;
  CHECK(refusal_of<FormatError>(bad).starts_with("matrix A, rows: found 6"));
  bad = good;
  bad.b.first.num_blocks = 4;
  CHECK(refusal_of<FormatError>(bad).starts_with("matrix B, num_blocks: found 4"));
  bad = good;
  bad.b.first.m = 2;
  CHECK(refusal_of<ShapeError>(bad).starts_with("matrix A and matrix B: 8 x 12, m = 4"));
}

TEST_CASE("many products: strides of stacks that no memory holds") {
  DeviceStacks products{.a = {.first = empty_matrix(8, 12)}, .b = {.first = empty_matrix(12, 4)}, .num_products = 5};
  products.a.strides.indptr = (std::uint64_t{1} << 58) / 5 + 1;  // of 4 bytes
  CHECK(refusal_of<FormatError>(products).starts_with("matrix A, strides, indptr: found 57646075230342349: no memory"));
  products.a.strides = {.values = ~std::uint64_t{0}};
  CHECK(refusal_of<FormatError>(products).starts_with("matrix A, strides, values: found 18446744073709551615:"));
  products.a.strides = {};
  products.b.strides = {.indices = std::uint64_t{1} << 60};
  CHECK(refusal_of<FormatError>(products).starts_with("matrix B, strides, indices:"));
}

TEST_CASE("many products: more than can be numbered together are to be split") {
  const std::uint64_t side = 0x8000'0000u;
  const DevicePair large{.a = empty_matrix(side, 4), .b = empty_matrix(4, 4)};
  CHECK(refusal_of<UsageError>({large, large}).find("split them into several calls") != std::string::npos);
  const DevicePair wide{.a = empty_matrix(4, 4), .b = empty_matrix(4, side)};
  CHECK(refusal_of<UsageError>({wide, wide}).starts_with("products: they have 4294967296 rows or columns together"));
  const DevicePair rows{.a = empty_matrix(side / 2, 1, 1), .b = empty_matrix(1, 1, 1)};
  CHECK(refusal_of<UsageError>({rows, rows}).starts_with("products: they have 2147483648 block rows"));

  DeviceStacks stacks{.a = {.first = rows.a}, .b = {.first = rows.b}, .num_products = 2};
  CHECK(refusal_of<UsageError>(stacks).starts_with("products: they have 2147483648 block rows"));
  stacks.num_products = ~std::uint64_t{0};
  CHECK(refusal_of<UsageError>(stacks).starts_with("products: they have 4611686018427387904 rows or columns together"));
  stacks = {.a = {.first = empty_matrix(4, 4)}, .b = {.first = empty_matrix(4, 4)}, .num_products = 0x4000'0000u};
  stacks.a.first.num_blocks = 1;
  CHECK(refusal_of<UsageError>(stacks).starts_with("products: they have 4294967296 rows or columns together"));
}
