// The bounds of 32-bit sums, and rows longer than every list of the row-merge kernel.
#include <algorithm>
#include <string>

#include "cpu/operands/prepared.hpp"
#include "cpu/rows/arithmetic.hpp"
#include "cpu/simd/kernels.hpp"
#include "cpu/simd/layout.hpp"
#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "support/matrix_builder.hpp"
#include "support/oracle.hpp"
#include "unit/cpu/run_cpu.hpp"

namespace spmm::test {
namespace {

TEST_CASE("cpu: choose_arithmetic keeps its bounds for every side and largest element") {
  for (std::uint32_t m = 1; m <= kMaxBlockDim; ++m) {
    const cpu::PackedShape shape = cpu::packed_shape(cpu::Isa::avx2, m);
    CHECK((shape.packing == cpu::Packing::rows) == cpu::sums_in_tiles(m));
    if (shape.packing == cpu::Packing::rows) continue;
    const cpu::PackedShape plain = cpu::packed_shape(cpu::Isa::portable, m);
    for (const std::uint32_t a : {0u, 1u, 255u, 2047u, 16383u, 32767u, 32768u, 65535u}) {
      for (const std::uint32_t b : {0u, 1u, 255u, 2047u, 16383u, 32767u, 32768u, 65535u}) {
        const cpu::Arithmetic arithmetic = cpu::choose_arithmetic(shape, a, b);
        INFO("m = " << m << ", " << a << " x " << b);
        REQUIRE(arithmetic.flush_pairs >= 1);
        const std::uint64_t terms = std::uint64_t{arithmetic.flush_pairs} * m;
        if (arithmetic.wide) {
          CHECK(terms * 255 * 32768 <= 0x7FFFFFFFu);
          CHECK(terms * 65535 <= 0xFFFFFFFFu);  // row sums
          CHECK(terms * 65535 * 65535 / 256 <= 0xFFFFFFFFu);
        } else {
          CHECK(std::max(a, b) < 32768);
          CHECK(terms * a * b <= 0xFFFFFFFFu);
        }
        const cpu::Arithmetic portable = cpu::choose_arithmetic(plain, a, b);
        REQUIRE(portable.flush_pairs >= 1);
        CHECK(portable.wide == (std::uint64_t{a} * b * m > 0xFFFFFFFFu));
        CHECK((portable.wide || std::uint64_t{portable.flush_pairs} * m * a * b <= 0xFFFFFFFFu));
      }
    }
  }
}

TEST_CASE("cpu: a large element costs the rows that meet it") {
  constexpr std::uint32_t kSide = 40;
  StageClock clock;
  const ProgressFn no_progress;
  const Run run{.clock = clock, .on_progress = no_progress, .num_threads = 2};
  for (const std::uint32_t m : {4u, 5u, 8u, 9u, 10u, 16u, 20u}) {
    MatrixBuilder a(kSide, m, 1);
    MatrixBuilder b(kSide, m, 2);
    for (std::uint32_t i = 0; i < kSide; ++i) {
      for (std::uint32_t x = 0; x < 20; ++x) {
        a.add_random(i, x, 255);
        if (i != 3) b.add_random(i, (x + i) % kSide, 255);  // block row 3 of B is empty
      }
    }
    a.add_random(11, 30, 255);  // no other row meets block row 30 of B
    BlockMatrix left = a.matrix();
    BlockMatrix right = b.matrix();
    const auto shape = cpu::packed_shape(cpu::Isa::avx2, m);
    const auto wide_rows = [&] {
      const cpu::Prepared product = cpu::prepare(MemorySource(left), MemorySource(right), shape, run);
      const cpu::RowArithmetic arithmetic = cpu::choose_row_arithmetic(product.a, product.b, shape, run);
      std::vector<std::uint32_t> rows;
      for (std::uint32_t row = 0; row < product.a.num_rows(); ++row) {
        if (arithmetic.of(row).wide) rows.push_back(row);
      }
      CHECK((arithmetic.a_row_sums.size() != 0) == !rows.empty());
      return rows;
    };
    const std::size_t block = std::size_t{m} * m;
    CHECK(wide_rows().empty());
    left.values[7 * 20 * block] = 65'535;
    CHECK((wide_rows() == std::vector<std::uint32_t>{7}));
    const auto of_row_30 = std::find_if(right.index.begin(), right.index.end(), [](auto at) { return at.i == 30; });
    right.values[static_cast<std::size_t>(of_row_30 - right.index.begin()) * block + 1] = 32'768;
    CHECK((wide_rows() == std::vector<std::uint32_t>{7, 11}));
    for (const std::string& isa : available_isas()) {
      INFO(isa << ", m = " << m);
      const ForcedIsa forced(isa);
      CHECK((run_cpu(left, right) == oracle_multiply(left, right)));
    }
  }
}

TEST_CASE("cpu: a row with more blocks than a list holds") {
  constexpr std::uint32_t kNb = 140'000;
  MatrixBuilder a(kNb, 1, 1);
  MatrixBuilder b(kNb, 1, 2);
  for (std::uint32_t t = 0; t < kNb; ++t) {
    a.add_random(7, t, 65535);
    b.add_random(t, 100, t % 2);                     // one column with all pairs, a sum that stays below the limit
    if (t % 2 == 0) b.add_random(t, 99'999, 65535);  // saturates in every part
    if (t % 3 == 0) b.add_random(t, 101 + t % 1000, 65535);
  }
  const ProductMatrix expected = oracle_multiply(a.matrix(), b.matrix());
  REQUIRE(std::count(expected.values.begin(), expected.values.end(), 0xFFFF'FFFFu) > 0);
  CHECK((run_cpu(a.matrix(), b.matrix()) == expected));
  CHECK((run_cpu(a.matrix(), b.matrix(), {.num_threads = 5, .panel_bytes = 1}) == expected));
}

TEST_CASE("cpu: pairs of a row are sorted where there are too many columns to count") {
  constexpr std::uint32_t kSide = (1u << 21) + 3;
  for (const std::uint32_t m : {4u, 5u, 16u}) {
    MatrixBuilder a(kSide, m, 1);
    MatrixBuilder b(kSide, m, 2);
    for (std::uint32_t t = 0; t < 70; ++t) {
      a.add_random(9, t * 1000, 65535);
      for (std::uint32_t x = 0; x < 3; ++x) b.add_random(t * 1000, t % 20 * 37 + (2 - x) * 900'001, 65535);
    }
    check_product(a.matrix(), b.matrix());
  }
}

TEST_CASE("cpu: large blocks, a column around the pairs of one list") {
  constexpr std::uint32_t kSide = 64;
  constexpr std::uint32_t kListPairs = (1u << 28) / (kSide * kSide * kSide);
  for (const std::uint32_t length : {kListPairs - 1, kListPairs, kListPairs + 1, 2 * kListPairs + 1}) {
    MatrixBuilder a(length, kSide, 0);
    MatrixBuilder b(length, kSide, 0);
    for (std::uint32_t t = 0; t < length; ++t) {
      a.add_constant(length - 1, t, t % 5 == 0 ? 3 : 0);
      b.add_constant(t, length / 2, t % 7);
      if (t % 100 == 0) b.add_constant(t, length / 2 + 1, 2);  // the columns next to a long one
      if (t % 90 == 0) b.add_constant(t, length / 2 - 1, 2);
      if (t == 7) b.add_constant(t, 0, 1);
      a.add_constant(length - 2, t, 65535);  // every list of this row's long column saturates
    }
    CHECK((run_cpu(a.matrix(), b.matrix()) == oracle_multiply(a.matrix(), b.matrix())));
  }
}

}  // namespace
}  // namespace spmm::test
