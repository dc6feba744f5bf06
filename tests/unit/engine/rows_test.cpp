// Products of some block rows: together they are the whole product, and each holds no other row.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "io/factor_source.hpp"
#include "plan/choice.hpp"
#include "spmm/spmm.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/matrices.hpp"
#include "support/memory_stream.hpp"

namespace {

using namespace spmm;

ProductOptions rows_on_cpu(RowRange rows, bool transpose_a = false, bool transpose_b = false) {
  ProductOptions options;
  options.backend = Backend::cpu;
  options.rows = rows;
  options.transpose_a = transpose_a;
  options.transpose_b = transpose_b;
  return options;
}

/// Appends the blocks of a matrix that lie in these rows.
template <class Matrix>
void append_rows(const Matrix& whole, RowRange rows, Matrix& to) {
  const std::size_t elements = std::size_t{whole.m} * whole.m;
  for (std::size_t x = 0; x < whole.index.size(); ++x) {
    if (whole.index[x].i < rows.first || whole.index[x].i >= rows.end) continue;
    to.index.push_back(whole.index[x]);
    to.values.insert(to.values.end(), whole.block(x), whole.block(x) + elements);
  }
}

BlockMatrix sorted_by_rows(const BlockMatrix& matrix) {
  BlockMatrix sorted{.n = matrix.n, .m = matrix.m, .index = {}, .values = {}};
  for (std::uint32_t row = 0; row < matrix.n / matrix.m; ++row) append_rows(matrix, {row, row + 1}, sorted);
  return sorted;
}

/// Run of a source that is made outside of a product.
struct Reading {
  StageClock clock{};
  Run run{.clock = clock, .on_progress = test::kNoProgress, .num_threads = 3};
};

}  // namespace

TEST_CASE("a source of some rows has the records of these rows in their order, however they are read") {
  for (const std::uint32_t m : {1u, 8u, 64u}) {
    const BlockMatrix mixed = test::random_matrix(40 * m, m, 1500, 65535, m);  // several pieces but for m = 1
    for (const BlockMatrix& matrix : {mixed, sorted_by_rows(mixed)}) {
      for (const bool is_transposed : {false, true}) {
        for (const RowRange rows :
             {RowRange{0, 40}, RowRange{0, 7}, RowRange{11, 12}, RowRange{30, 40}, RowRange{9, 9}}) {
          INFO("m " << m << ", rows " << rows.first << ":" << rows.end);
          const test::MemorySource whole(matrix);
          const BlockMatrix factor = is_transposed ? test::transposed(matrix) : matrix;
          const test::MemorySource factor_records(factor);
          Reading reading;
          const auto made = io::make_factor_source(whole, is_transposed, rows, reading.run);
          const Source& source = *made;
          std::vector<std::size_t> expected;
          for (std::size_t x = 0; x < matrix.index.size(); ++x) {
            if (factor.index[x].i >= rows.first && factor.index[x].i < rows.end) expected.push_back(x);
          }
          REQUIRE(source.header() == MatrixHeader{matrix.n, m, static_cast<std::uint32_t>(expected.size())});
          const std::uint64_t record = input_record_bytes(m);
          std::vector<std::byte> one(record);
          for (const std::uint64_t piece : {std::uint64_t{1}, std::uint64_t{7}, std::uint64_t{2000}}) {
            std::vector<std::byte> bytes(piece * record);
            for (std::uint64_t at = 0; at < expected.size(); at += piece) {
              const std::uint64_t count = std::min(piece, expected.size() - at);
              source.read(at, count, bytes.data());
              bool is_right = true;
              for (std::uint64_t x = 0; x < count; ++x) {
                factor_records.read(expected[at + x], 1, one.data());
                is_right = is_right && std::memcmp(one.data(), bytes.data() + x * record, record) == 0;
              }
              REQUIRE(is_right);
              REQUIRE(source.place(at) == whole.place(expected[at]));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("a source of some rows notices that a later reading finds other blocks") {
  class Replaced : public test::MemorySource {
   public:
    using MemorySource::MemorySource;
    void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override {
      other != nullptr ? other->read(first, count, dst) : MemorySource::read(first, count, dst);
    }
    const Source* other = nullptr;
  };
  BlockMatrix matrix = test::random_matrix(40 * 4, 4, 500, 9, 1);
  Replaced whole(matrix);
  Reading reading;
  const auto rows = io::make_factor_source(whole, false, {5, 20}, reading.run);
  for (BlockIndex& at : matrix.index) at.i = 39;
  const test::MemorySource later(matrix);
  whole.other = &later;
  std::vector<std::byte> bytes(rows->header().num_blocks * input_record_bytes(4));
  CHECK_THROWS_AS(rows->read(0, rows->header().num_blocks, bytes.data()), FormatError);
}

TEST_CASE("rows that there are not, and what is wrong with A, are named") {
  const BlockMatrix a = test::random_matrix(50 * 4, 4, 300, 9, 1);
  const auto with_rows = [&](RowRange rows) {
    return test::message_of<UsageError>([&] { multiply(a, a, {{}, rows_on_cpu(rows)}); });
  };
  CHECK(with_rows({0, 51}).find("0:51 leaves the product, which has 50 block rows") != std::string::npos);
  CHECK(with_rows({51, 0xFFFF'FFFFu}).find("leaves the product") != std::string::npos);
  CHECK(with_rows({7, 5}).find("7:5 ends before it begins") != std::string::npos);
  CHECK(with_rows({50, 50}) == "no such error");
  CHECK(with_rows({50, 0xFFFF'FFFFu}) == "no such error");

  BlockMatrix outside = a;
  outside.index[17] = {.i = 3, .j = 70};
  CHECK(test::message_of<FormatError>([&] {
          multiply(outside, a, {{}, rows_on_cpu({40, 50})});
        }).find("matrix A, block 17: block index (3, 70)") != std::string::npos);
  BlockMatrix twice = sorted_by_rows(a);
  std::size_t in_last = twice.index.size() - 1;
  twice.index[in_last - 1] = twice.index[in_last];
  const auto duplicate = [&](RowRange rows) {
    return test::message_of<FormatError>([&] { multiply(twice, a, {{}, rows_on_cpu(rows)}); });
  };
  CHECK(duplicate({twice.index[in_last].i, 50}).find("block " + std::to_string(in_last)) != std::string::npos);
  CHECK(duplicate({0, twice.index[in_last].i}) == "no such error");  // of rows outside, indices alone are checked
}
