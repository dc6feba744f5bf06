// Products that go straight into the records of a row: columns that occur once, twice and more often, sums at the
// limit, products that are zero, rows and buffers at every limit of this path.
#include <cstdint>
#include <string>

#include "cpu/operands/order/row_ranks.hpp"
#include "support/catch.hpp"
#include "support/matrix_builder.hpp"
#include "support/oracle.hpp"
#include "unit/cpu/run_cpu.hpp"

namespace spmm::test {
namespace {

/// Every instruction set; buffers for whole rows, for part of a row, and for one record.
void check(const BlockMatrix& a, const BlockMatrix& b) {
  const ProductMatrix expected = oracle_multiply(a, b);
  for (const std::string& isa : available_isas()) {
    INFO(isa);
    const ForcedIsa forced(isa);
    for (const std::uint64_t panel_bytes : {1u << 22, 1u << 14, 1u}) {
      CHECK((run_cpu(a, b, {.panel_bytes = panel_bytes, .num_buffers = 3}) == expected));
    }
  }
}

/// Two operands whose rows meet: row r of A has r blocks, each of which meets `row_blocks` blocks of B. Columns of B's
/// rows lie `step` apart; neighbouring rows share columns if that is less than row_blocks.
struct Rows {
  std::uint32_t num_rows = 24;
  std::uint32_t row_blocks = 9;
  std::uint32_t shift = 9;
  std::uint32_t side = 3000;
};

std::uint32_t column(const Rows& rows, std::uint32_t t, std::uint32_t x) {
  return (t * rows.shift + x) * 7 % rows.side;
}

BlockMatrix left(const Rows& rows, std::uint32_t m, std::uint32_t max_value) {
  MatrixBuilder a(rows.side, m, 1);
  for (std::uint32_t r = 0; r < rows.num_rows; ++r) {
    for (std::uint32_t t = 0; t < r; ++t) a.add_random(r * 3, t, max_value);
  }
  return a.matrix();
}

BlockMatrix right(const Rows& rows, std::uint32_t m, std::uint32_t max_value, std::uint32_t zero_step) {
  MatrixBuilder b(rows.side, m, 2);
  std::uint32_t count = 0;
  for (std::uint32_t t = 0; t < rows.num_rows; ++t) {
    for (std::uint32_t x = 0; x < rows.row_blocks; ++x) {
      const bool is_zero = zero_step != 0 && ++count % zero_step == 0;
      b.add_random(t, column(rows, t, x), is_zero ? 0 : max_value);
    }
  }
  return b.matrix();
}

}  // namespace

TEST_CASE("cpu: products straight into records, columns once to many times") {
  static_assert(24 * 9 > cpu::kMaxRankedKeys, "rows on both sides of the limit of ranks");
  for (const std::uint32_t m : {4u, 8u}) {
    for (const std::uint32_t shift : {9u, 8u, 5u, 2u, 1u, 0u}) {
      for (const std::uint32_t side : {400u, 3000u}) {
        INFO("m " << m << ", shift " << shift << ", side " << side);
        const Rows rows{.shift = shift, .side = side};
        check(left(rows, m, 2047), right(rows, m, 2047, 0));
      }
    }
  }
}

TEST_CASE("cpu: products straight into records, sums at the limit") {
  for (const std::uint32_t m : {4u, 8u}) {
    for (const std::uint32_t max_value : {8191u, 16'383u, 23'170u, 32'767u, 65'535u}) {
      INFO("m " << m << ", elements to " << max_value);
      const Rows rows{.shift = 6};
      check(left(rows, m, max_value), right(rows, m, max_value, 0));
    }
  }
}

TEST_CASE("cpu: products straight into records, zero ones are left out") {
  for (const std::uint32_t m : {4u, 8u}) {
    for (const std::uint32_t zero_step : {1u, 2u, 9u, 50u}) {
      for (const std::uint32_t shift : {9u, 6u}) {
        INFO("m " << m << ", every " << zero_step << "th block zero, shift " << shift);
        const Rows rows{.shift = shift};
        check(left(rows, m, 3), right(rows, m, 3, zero_step));
      }
    }
  }
}

}  // namespace spmm::test
