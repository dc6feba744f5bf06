// The kernels of the block-sparse product that make dense operands: borders of tiles, saturation found early, limits.
#include <cstdint>
#include <string>

#include "spmm/spmm.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/gpu_kernels.hpp"
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

}  // namespace

TEST_CASE("the dense kernel refuses what does not fit, and the planner then takes another") {
  const BlockMatrix a = test::random_matrix(64 * 512, 64, 900, 65535, 5);
  Options options = on_gpu("dense-tensor");
  options.memory_limit_bytes = std::uint64_t{300} << 20;
  CHECK_THROWS_AS(multiply(a, a, options), OutOfMemory);
  options.kernel = "auto";
  Report report;
  const ProductMatrix product = multiply(a, a, options, &report);
  CHECK(report.plan.kernel == "rows");
  CHECK((product == multiply(a, a, on_gpu("two-pointer"))));
}

TEST_CASE("the dense kernel at borders of its tiles and segments") {
  // Plane rows around 128 and 256 per CTA; more than 65,536 terms, all at the maximum.
  for (const std::uint32_t nb : {7u, 8u, 9u, 15u, 16u, 17u, 31u, 32u, 33u}) {
    const BlockMatrix a = test::random_matrix(nb * 8, 8, nb * nb, 3000, nb);
    const BlockMatrix b = test::random_matrix(nb * 8, 8, nb * nb / 2, 65535, nb + 1);
    INFO("nb " << nb);
    REQUIRE((multiply(a, b, on_gpu("dense-tensor")) == test::oracle_multiply(a, b)));
  }
  for (const std::uint32_t value : {1u, 255u, 256u, 65535u}) {
    test::MatrixBuilder a(1100, 64, 1);
    test::MatrixBuilder b(1100, 64, 2);
    for (std::uint32_t t = 0; t < 1100; ++t) {
      a.add_constant(3, t, value);
      b.add_constant(t, 1099, value == 65535 ? 1 : value);
    }
    INFO("value " << value);
    REQUIRE(
        (multiply(a.matrix(), b.matrix(), on_gpu("dense-tensor")) == test::oracle_multiply(a.matrix(), b.matrix())));
  }
}

TEST_CASE("dense kernels multiply in groups of block columns where B does not fit as a whole") {
  for (const std::string kernel : {"dense-tiled", "dense-tensor"}) {
    if (kernel == "dense-tensor" && !test::device_runs("dense-tensor")) continue;
    for (const std::uint32_t m : {8u, 7u}) {
      const BlockMatrix a = test::random_matrix(m * 1500, m, 4000, 65535, 1);
      const BlockMatrix b = test::random_matrix(m * 1500, m, 4000, 65535, 2);
      const ProductMatrix expected = multiply(a, b, on_gpu("two-pointer"));
      Options options = on_gpu(kernel);
      options.memory_limit_bytes = std::uint64_t{120} << 20;  // B as a whole: 220 and 288 MB
      Report report;
      INFO(kernel << ", m " << m);
      REQUIRE((multiply(a, b, options, &report) == expected));
      CHECK(report.peak_device_bytes <= options.memory_limit_bytes);
    }
  }
}

TEST_CASE("dense-tensor tells tiles that high bytes prove saturated from those that need all bytes") {
  if (!test::device_runs("dense-tensor")) return;
  for (const std::uint32_t m : {8u, 5u}) {
    const std::uint32_t nb = 1100 / m;  // tiles of 128 x 256 elements: nine by five, the last ones cut
    for (const std::uint32_t high : {65535u, 2047u}) {
      const BlockMatrix a = mixed_matrix(nb, m, nb / 2, high, 300, false);
      const BlockMatrix b = mixed_matrix(nb, m, nb / 3, 65535, 40, true);
      INFO("m " << m << ", up to " << high);
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
    REQUIRE(
        (multiply(a.matrix(), b.matrix(), on_gpu("dense-tensor")) == test::oracle_multiply(a.matrix(), b.matrix())));
  }
}
