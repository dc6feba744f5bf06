// dense-tensor with three products of bytes: elements of nine to fourteen bits, and the kernel of four in addition to
// it.
#include <cstdint>
#include <string>
#include <vector>

#include "spmm/spmm.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/gpu_kernels.hpp"
#include "support/matrix_builder.hpp"
#include "support/oracle.hpp"

namespace {

using namespace spmm;
using test::on_gpu;

/// What the kernel makes of two operands is what the definition says.
void check_three(const BlockMatrix& a, const BlockMatrix& b) {
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
  check_three(a.matrix(), b.matrix());
}

}  // namespace

TEST_CASE("dense-tensor with elements of every number of bits, at borders of its tiles") {
  if (!test::device_runs("dense-tensor")) return;
  for (const std::uint32_t largest : {255u, 256u, 511u, 512u, 1000u, 4095u, 8191u, 16'383u, 16'384u}) {
    for (const std::uint32_t m : {8u, 7u, 2u}) {
      for (const std::uint32_t side : {120u, 136u, 264u}) {
        const std::uint32_t nb = side / m + 1;
        const BlockMatrix a = test::random_matrix(nb * m, m, nb * nb / 2 + 1, largest, largest + side);
        const BlockMatrix b = test::random_matrix(nb * m, m, nb * nb - nb, largest, largest + m);
        INFO("largest " << largest << ", m " << m << ", nb " << nb);
        check_three(a, b);
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

TEST_CASE("dense-tensor with fourteen bits where some tiles are saturated") {
  if (!test::device_runs("dense-tensor")) return;
  for (const std::uint32_t m : {8u, 5u}) {
    const std::uint32_t nb = 1100 / m;
    for (const std::uint32_t high : {16'383u, 2047u}) {
      test::MatrixBuilder a(nb, m, 1);
      test::MatrixBuilder b(nb, m, 2);
      for (std::uint32_t i = 0; i < nb; ++i) {
        for (std::uint32_t j = 0; j < nb; ++j) {
          if ((i * 7 + j * 5) % 11 != 0) a.add_random(i, j, i < nb / 2 ? high : 300);
          if ((i * 5 + j * 7) % 13 != 0) b.add_random(i, j, j < nb / 3 ? 16'383 : 40);
        }
      }
      INFO("m " << m << ", up to " << high);
      REQUIRE((multiply(a.matrix(), b.matrix(), on_gpu("dense-tensor")) ==
               multiply(a.matrix(), b.matrix(), on_gpu("two-pointer"))));
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

TEST_CASE("dense-tensor with three planes in groups of block columns") {
  if (!test::device_runs("dense-tensor")) return;
  for (const std::uint32_t m : {8u, 7u}) {
    const BlockMatrix a = test::random_matrix(m * 1500, m, 4000, 16'383, 1);
    const BlockMatrix b = test::random_matrix(m * 1500, m, 4000, 16'383, 2);
    const ProductMatrix expected = multiply(a, b, on_gpu("two-pointer"));
    for (const std::uint64_t megabytes : {120u, 2000u}) {
      Options options = on_gpu("dense-tensor");
      options.memory_limit_bytes = megabytes << 20;
      Report report;
      INFO("m " << m << ", " << megabytes << " MB");
      REQUIRE((multiply(a, b, options, &report) == expected));
      CHECK(report.peak_device_bytes <= options.memory_limit_bytes);
    }
  }
}

TEST_CASE("small dense: three products of bytes") {
  if (!test::device_runs("dense-tensor")) return;
  for (const std::uint32_t m : {8u, 5u}) {
    const std::uint32_t nb = 136 / m + 1;
    check_three(test::random_matrix(nb * m, m, nb * 4, 1000, 1), test::random_matrix(nb * m, m, nb * 7, 16'383, 2));
  }
  check_terms(std::vector<Term>(129, Term{16'383, 127}));
}
