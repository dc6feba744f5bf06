// The kernels of the block-sparse product that make dense operands: borders of tiles, saturation found early, limits.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "spmm/spmm.hpp"
#include "support/catch.hpp"
#include "support/gpu_kernels.hpp"
#include "support/matrices.hpp"
#include "support/matrix_builder.hpp"
#include "support/oracle.hpp"

namespace {

using namespace spmm;
using test::on_gpu;

/// Every block is there and holds one value.
BlockMatrix constant_matrix(std::uint32_t nb, std::uint32_t m, std::uint32_t value) {
  test::MatrixBuilder builder(nb, m, 1);
  for (std::uint32_t i = 0; i < nb; ++i) {
    for (std::uint32_t j = 0; j < nb; ++j) builder.add_constant(i, j, value);
  }
  return builder.matrix();
}

/// Most blocks are there; the largest element is `high` in the first block rows (or columns), `low` behind them.
BlockMatrix mixed_matrix(std::uint32_t nb, std::uint32_t m, std::uint32_t first_low, std::uint32_t high,
                         std::uint32_t low, bool by_columns) {
  test::MatrixBuilder builder(nb, m, first_low);
  for (std::uint32_t i = 0; i < nb; ++i) {
    for (std::uint32_t j = 0; j < nb; ++j) {
      if ((i * 7 + j * 5) % 11 == 0) continue;
      builder.add_random(i, j, (by_columns ? j : i) < first_low ? high : low);
    }
  }
  return builder.matrix();
}

/// What the kernel makes of two operands is what the definition says.
void check_dense(const BlockMatrix& a, const BlockMatrix& b) {
  REQUIRE((multiply(a, b, on_gpu("dense-tensor")) == test::oracle_multiply(a, b)));
}

/// One term of every element of C.
struct Term {
  std::uint32_t a;
  std::uint32_t b;
};

/// A and B such that the elements of C in block row 3 and block column 5 are sums of these terms, from the first
/// element of K on.
void check_terms(const std::vector<Term>& terms) {
  constexpr std::uint32_t kSide = 8;
  const auto blocks = static_cast<std::uint32_t>(terms.size() + kSide - 1) / kSide;
  const std::uint32_t nb = blocks < 6 ? 6 : blocks;
  test::MatrixBuilder a(nb, kSide, 1);
  test::MatrixBuilder b(nb, kSide, 2);
  for (std::uint32_t t = 0; t < blocks; ++t) {
    a.add_constant(3, t, 0);
    b.add_constant(t, 5, 0);
    for (std::uint32_t k = 0; k < kSide && t * kSide + k < terms.size(); ++k) {
      const Term& term = terms[t * kSide + k];
      for (std::uint32_t r = 0; r < kSide; ++r) {
        a.element(r, k) = static_cast<std::uint16_t>(term.a);
        b.element(k, r) = static_cast<std::uint16_t>(term.b);
      }
    }
  }
  check_dense(a.matrix(), b.matrix());
}

}  // namespace

TEST_CASE("the dense kernel refuses what does not fit, and the planner then takes another") {
  const BlockMatrix a = test::random_matrix(64 * 512, 64, 900, 65535, 5);
  Options options = on_gpu("dense-tensor");
  options.memory_limit_bytes = std::uint64_t{120} << 20;
  CHECK_THROWS_AS(multiply(a, a, options), OutOfMemory);
  options.kernel = "auto";
  Report report;
  const ProductMatrix product = multiply(a, a, options, &report);
  CHECK(report.plan.kernel == "rows");
  CHECK((product == multiply(a, a, on_gpu("two-pointer"))));
}

TEST_CASE("dense kernels multiply in groups of block columns where B does not fit as a whole") {
  for (const std::string kernel : {"dense-tiled", "dense-tensor"}) {
    if (kernel == "dense-tensor" && !test::device_runs("dense-tensor")) continue;
    for (const auto& [m, largest] : {std::pair(8u, 65'535u), std::pair(7u, 65'535u), std::pair(7u, 16'383u)}) {
      const BlockMatrix a = test::random_matrix(m * 1500, m, 4000, largest, 1);
      const BlockMatrix b = test::random_matrix(m * 1500, m, 4000, largest, 2);
      const ProductMatrix expected = multiply(a, b, on_gpu("two-pointer"));
      Options options = on_gpu(kernel);
      options.memory_limit_bytes = std::uint64_t{120} << 20;  // B as a whole: 220 MB and more
      Report report;
      INFO(kernel << ", m " << m << ", largest " << largest);
      REQUIRE((multiply(a, b, options, &report) == expected));
      CHECK(report.peak_device_bytes <= options.memory_limit_bytes);
    }
  }
}

TEST_CASE("dense-tensor tells tiles that high bytes prove saturated from those that need all bytes") {
  if (!test::device_runs("dense-tensor")) return;
  for (const std::uint32_t m : {8u, 5u}) {
    const std::uint32_t nb = 1100 / m;  // tiles of 128 x 256 elements: nine by five, the last ones cut
    // Of four and of three products of bytes.
    for (const auto& [high, other] :
         {std::pair(65'535u, 65'535u), std::pair(2047u, 65'535u), std::pair(2047u, 16'383u)}) {
      const BlockMatrix a = mixed_matrix(nb, m, nb / 2, high, 300, false);
      const BlockMatrix b = mixed_matrix(nb, m, nb / 3, other, 40, true);
      INFO("m " << m << ", up to " << high << " and " << other);
      REQUIRE((multiply(a, b, on_gpu("dense-tensor")) == multiply(a, b, on_gpu("two-pointer"))));
    }
  }
}

TEST_CASE("dense-tensor at the edge of what high bytes prove") {
  if (!test::device_runs("dense-tensor")) return;
  // 2047 = 255 << 3 | 7: from 1,033 terms on the high bytes suffice, from 1,026 on the elements are saturated.
  for (const std::uint32_t nb : {128u, 129u, 130u}) {
    for (const std::uint32_t value : {2040u, 2047u}) {
      const BlockMatrix a = constant_matrix(nb, 8, value);
      INFO("nb " << nb << ", value " << value);
      REQUIRE((multiply(a, a, on_gpu("dense-tensor")) == multiply(a, a, on_gpu("two-pointer"))));
    }
  }
  // Sums of high bytes of 65,535 and 65,536, that is 2^32 - 65,536 and 2^32.
  for (const std::uint32_t last : {0u, 0x100u}) {
    test::MatrixBuilder a(40, 8, 1);
    test::MatrixBuilder b(40, 8, 2);
    for (std::uint32_t t = 0; t < 40; ++t) {
      const std::uint16_t values_a[] = {0xFF00, 0xFF00, 0x100};
      const std::uint16_t values_b[] = {0xFF00, 0x200, static_cast<std::uint16_t>(last)};
      for (std::uint32_t k = 0; k < 3; ++k) {
        a.add_constant(t, k, 0);
        for (std::uint32_t r = 0; r < 8; ++r) a.element(r, k) = values_a[k];
        b.add_constant(k, t, 0);
        for (std::uint32_t c = 0; c < 8; ++c) b.element(k, c) = values_b[k];
      }
    }
    INFO("last " << last);
    check_dense(a.matrix(), b.matrix());
  }
}

TEST_CASE("dense-tensor with elements of every number of bits, at borders of its tiles") {
  if (!test::device_runs("dense-tensor")) return;
  for (const std::uint32_t largest : {255u, 256u, 511u, 512u, 1000u, 4095u, 8191u, 16'383u, 16'384u}) {
    for (const std::uint32_t m : {8u, 7u, 2u}) {
      for (const std::uint32_t side : {120u, 136u, 264u}) {
        const std::uint32_t nb = side / m + 1;
        const BlockMatrix a = test::random_matrix(nb * m, m, nb * nb / 2 + 1, largest, largest + side);
        const BlockMatrix b = test::random_matrix(nb * m, m, nb * nb - nb, largest, largest + m);
        INFO("largest " << largest << ", m " << m << ", nb " << nb);
        check_dense(a, b);
      }
    }
  }
}

TEST_CASE("dense-tensor with elements of which only the high or only the low half is there") {
  if (!test::device_runs("dense-tensor")) return;
  constexpr std::uint32_t kHigh = 127u << 7;
  constexpr std::uint32_t kLow = 127;
  for (const std::uint32_t count : {1u, 8u, 129u, 5000u}) {
    INFO(count << " terms");
    check_terms(std::vector<Term>(count, Term{kHigh, kLow}));
    check_terms(std::vector<Term>(count, Term{kLow, kHigh}));
    check_terms(std::vector<Term>(count, Term{kLow, kLow}));
    std::vector<Term> mixed(count, Term{kHigh, kLow});
    mixed.push_back({kHigh | kLow, kLow});
    mixed.push_back({kLow, kHigh});
    check_terms(mixed);
  }
}

TEST_CASE("dense-tensor with fourteen bits at the edge of saturation") {
  if (!test::device_runs("dense-tensor")) return;
  // 16 * 16383^2 + 16383 * 32 + 15 = 2^32 - 1.
  for (const std::uint32_t last : {0u, 14u, 15u, 16u, 16'383u}) {
    std::vector<Term> terms(16, Term{16'383, 16'383});
    terms.push_back({16'383, 32});
    terms.push_back({last, 1});
    INFO("last " << last);
    check_terms(terms);
  }
  // High parts alone: sums of 2^18 products of one are 2^32.
  for (const std::uint32_t rest : {0u, 1u, 2u, 127u}) {
    std::vector<Term> terms(16, Term{127u << 7, 127u << 7});  // 258,064
    terms.push_back({127u << 7, 32u << 7});                   // 4,064
    terms.push_back({15u << 7, 1u << 7});                     // 15: one is missing
    terms.push_back({rest << 7, 1u << 7});
    INFO("rest " << rest);
    check_terms(terms);
  }
}

TEST_CASE("dense-tensor with fourteen bits and more terms than its sums hold") {
  if (!test::device_runs("dense-tensor")) return;
  // 65,536 terms are one segment; all 127 + 127 in the sums, 2^32 - 66 million of them.
  for (const std::uint32_t value : {300u, 16'383u}) {
    for (const std::uint32_t other : {1u, 9u, 127u, 128u}) {
      INFO(value << " * " << other);
      check_terms(std::vector<Term>(70'000, Term{value, other}));
      check_terms(std::vector<Term>(65'536, Term{other, value}));
    }
  }
}

TEST_CASE("dense-tensor finds a saturated tile in panels that are not saturated on average") {
  if (!test::device_runs("dense-tensor")) return;
  constexpr std::uint32_t kBlocks = 1100;  // of side 8: 8,800 terms, one check for saturation before the last
  test::MatrixBuilder a(kBlocks, 8, 1);
  test::MatrixBuilder b(kBlocks, 8, 2);
  for (std::uint32_t t = 0; t < kBlocks; ++t) {
    for (std::uint32_t i = 0; i < 20; ++i) a.add_constant(i, t, 16'000);
    for (std::uint32_t j = 0; j < 40; ++j) b.add_random(t, j, 16'383);
    if (t >= 20) a.add_constant(t, t, 1 + t % 7);
    b.add_constant(t, 800 + t % 200, 3);
  }
  REQUIRE((multiply(a.matrix(), b.matrix(), on_gpu("dense-tensor")) ==
           multiply(a.matrix(), b.matrix(), on_gpu("two-pointer"))));
}

TEST_CASE("small dense: three products of bytes") {
  if (!test::device_runs("dense-tensor")) return;
  for (const std::uint32_t m : {8u, 5u}) {
    const std::uint32_t nb = 136 / m + 1;
    check_dense(test::random_matrix(nb * m, m, nb * 4, 1000, 1), test::random_matrix(nb * m, m, nb * 7, 16'383, 2));
  }
  check_terms(std::vector<Term>(129, Term{16'383, 127}));
}
