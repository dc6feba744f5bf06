// Block-CSR arrays, CSR arrays and lists of blocks as sources, and results as arrays.
#include "spmm/arrays.hpp"

#include <cstring>
#include <string>
#include <vector>

#include "base/records/head.hpp"
#include "spmm/engine.hpp"
#include "spmm/error.hpp"
#include "support/catch.hpp"
#include "unit/io/io_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;

/// A matrix of 3 x 4 blocks of side 2 with blocks at (0, 1), (2, 3) and (2, 0), in that order.
template <class Index>
struct Arrays {
  std::vector<Index> indptr = {0, 1, 1, 3};
  std::vector<Index> indices = {1, 3, 0};
  std::vector<std::uint16_t> data = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

  [[nodiscard]] BsrView<std::uint16_t> view() const {
    return {.rows = 6, .cols = 8, .m = 2, .indptr = indptr, .indices = indices, .data = data};
  }
};

std::string message_of_source(const BsrView<std::uint16_t>& view, std::uint32_t n = 8) {
  return message_of<FormatError>([&] { make_bsr_source(view, n, "matrix A"); });
}

BlockMatrix as_blocks(const Source& source) {
  const MatrixHeader header = source.header();
  const std::uint64_t bytes = input_record_bytes(header.m);
  std::vector<std::byte> raw(header.num_blocks * bytes);
  source.read(0, header.num_blocks, raw.data());
  BlockMatrix matrix{.n = header.n, .m = header.m, .index = {}, .values = {}};
  for (std::uint64_t r = 0; r < header.num_blocks; ++r) {
    matrix.index.push_back(read_index(raw.data() + r * bytes));
    const std::size_t end = matrix.values.size();
    matrix.values.resize(end + std::size_t{header.m} * header.m);
    std::memcpy(matrix.values.data() + end, raw.data() + r * bytes + kIndexBytes, bytes - kIndexBytes);
  }
  return matrix;
}

}  // namespace

TEMPLATE_TEST_CASE("block-CSR arrays are read as they lie, with indices of both widths", "", std::int32_t,
                   std::int64_t) {
  const Arrays<TestType> arrays;
  const auto source = make_bsr_source(arrays.view(), 8, "matrix A");
  CHECK((source->header() == MatrixHeader{.n = 8, .m = 2, .num_blocks = 3}));
  const BlockMatrix blocks = as_blocks(*source);
  CHECK((blocks.index == std::vector<BlockIndex>{{0, 1}, {2, 3}, {2, 0}}));
  CHECK(blocks.values == arrays.data);
  std::vector<std::byte> last(input_record_bytes(2));
  source->read(2, 1, last.data());
  CHECK((read_index(last.data()) == BlockIndex{2, 0}));
  CHECK_THROWS_AS(source->read(2, 2, last.data()), std::out_of_range);
  CHECK(source->place(0) == "indices[0] (block row 0)");
  CHECK(source->place(1) == "indices[1] (block row 2)");
}

TEST_CASE("a list of blocks is read as it lies") {
  const std::vector<BlockIndex> index = {{1, 0}, {0, 0}};
  const std::vector<std::uint16_t> values = {7, 8};
  const auto source = make_block_source({.n = 2, .m = 1, .index = index, .values = values}, "left");
  CHECK((as_blocks(*source) == BlockMatrix{.n = 2, .m = 1, .index = index, .values = values}));
  CHECK(source->place(1) == "block 1");
  const auto short_values = [&] {
    make_block_source({.n = 2, .m = 1, .index = index, .values = std::span(values).first(1)}, "left");
  };
  CHECK(has(message_of<FormatError>(short_values), "left, block 1: 1 values for 2 blocks, expected 2"));
}

TEST_CASE("arrays that are wrong are refused in the caller's words") {
  Arrays<std::int32_t> arrays;
  const auto expect = [&](const std::string& words) {
    const std::string message = message_of_source(arrays.view());
    INFO(message);
    CHECK(has(message, words));
    CHECK_FALSE(has(message, "byte offset"));
    arrays = {};
  };
  arrays.indptr = {0, 1, 1};
  expect("matrix A, indptr: has 3 entries, expected 4 for 3 block rows");
  arrays.indptr = {1, 1, 1, 3};
  expect("matrix A, indptr[0]: is 1, expected 0");
  arrays.indptr = {0, 2, 1, 3};
  expect("matrix A, indptr[2]: is 1, less than 2 before it");
  arrays.indptr = {0, 1, 4, 3};
  expect("matrix A, indptr[3]: is 3, less than 4 before it");
  arrays.indptr = {0, 1, 1, 4};
  expect("matrix A, indices: has 3 entries, expected 4");
  arrays.data.pop_back();
  expect("matrix A, data: has 11 elements, expected 12 for 3 blocks of 2 x 2");
  arrays.indices[2] = 4;
  expect("matrix A, indices[2] (block row 2): block column 4 is out of range, expected 0 to 3");
  arrays.indices[0] = -1;
  expect("matrix A, indices[0] (block row 0): block column -1 is out of range");
  for (const auto& [rows, cols, m] :
       std::vector<std::array<std::uint64_t, 3>>{{5, 8, 2}, {6, 7, 2}, {6, 1ull << 32, 2}, {6, 8, 0}, {6, 8, 65}}) {
    BsrView<std::uint16_t> view = arrays.view();
    view.rows = rows;
    view.cols = cols;
    view.m = static_cast<std::uint32_t>(m);
    CHECK(has(message_of_source(view), m == 2 ? "multiples of m = 2" : "block side m is"));
  }
}

TEST_CASE("A and B that do not fit each other are told apart") {
  const Arrays<std::int64_t> a;
  Arrays<std::int64_t> b;
  CHECK(has(message_of<ShapeError>([&] { padded_side(a.view(), b.view()); }), "shapes 6 x 8 and 6 x 8"));
  BsrView<std::uint16_t> other = b.view();
  other.m = 1;
  other.rows = 8;
  CHECK(has(message_of<ShapeError>([&] { padded_side(a.view(), other); }), "blocks of side 2 against 1"));
  other.m = 2;
  CHECK(padded_side(a.view(), other) == 8);
}

TEST_CASE("rectangular arrays that are transposed have the sides of factors") {
  Engine engine({.num_threads = 2});
  const Arrays<std::int64_t> arrays;
  ProductOptions options;
  options.transpose_a = true;
  const auto inner = engine.multiply(arrays.view(), arrays.view(), options);
  CHECK((inner.rows == 8 && inner.cols == 8));
  CHECK(inner.indptr == std::vector<std::int64_t>{0, 2, 3, 3, 5});
  CHECK(inner.indices == std::vector<std::int64_t>{0, 3, 1, 0, 3});
  CHECK(std::vector(inner.data.begin() + 8, inner.data.begin() + 12) == std::vector<std::uint32_t>{10, 14, 14, 20});
  options = {};
  options.transpose_b = true;
  const auto outer = engine.multiply(arrays.view(), arrays.view(), options);
  CHECK((outer.rows == 6 && outer.cols == 6));
  CHECK(outer.indices == std::vector<std::int64_t>{0, 2});
  CHECK_THROWS_AS(engine.multiply(arrays.view(), arrays.view()), ShapeError);
}

TEST_CASE("a block that is stored twice is found by the product and named by its index") {
  Engine engine({.num_threads = 2});
  for (const char* kernel : {"reference", "row-merge"}) {
    Arrays<std::int64_t> arrays;
    arrays.indices = {1, 3, 3};
    BsrView<std::uint16_t> square = arrays.view();
    square.cols = 8;
    Arrays<std::int64_t> other;
    other.indptr = {0, 1, 1, 3, 3};
    BsrView<std::uint16_t> right = other.view();
    right.rows = 8;
    ProductOptions options;
    options.backend = Backend::cpu;
    options.kernel = kernel;
    const std::string message = message_of<FormatError>([&] { engine.multiply(square, right, options); });
    INFO(message);
    CHECK(
        has(message, "matrix A, indices[2] (block row 2): block (2, 3) was stored before in indices[1] (block row 2)"));
    CHECK_FALSE(has(message, "byte"));
  }
}
