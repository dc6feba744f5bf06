// tile-tensor: products whose non-empty tiles are few, one, ragged, long or saturated.
#include <algorithm>
#include <cstdint>
#include <functional>

#include "spmm/engine.hpp"
#include "spmm/spmm.hpp"
#include "support/catch.hpp"
#include "support/gpu_kernels.hpp"
#include "support/matrices.hpp"
#include "support/matrix_builder.hpp"
#include "support/oracle.hpp"

namespace {

using namespace spmm;
using test::on_gpu;

using IsThere = std::function<bool(std::uint32_t i, std::uint32_t j)>;

BlockMatrix matrix_where(std::uint32_t nb, std::uint32_t m, std::uint32_t max_value, std::uint64_t seed,
                         const IsThere& is_there) {
  test::MatrixBuilder builder(nb, m, seed);
  for (std::uint32_t i = 0; i < nb; ++i) {
    for (std::uint32_t j = 0; j < nb; ++j) {
      if (is_there(i, j)) builder.add_random(i, j, max_value);
    }
  }
  return builder.matrix();
}

/// Dense groups along the diagonal.
IsThere groups_of(std::uint32_t group) {
  return [group](std::uint32_t i, std::uint32_t j) { return i / group == j / group; };
}

/// The same bytes as by definition, or by two-pointer where that takes too long.
void check_product(Engine& engine, const BlockMatrix& a, const BlockMatrix& b) {
  const ProductMatrix expected =
      a.n <= 300 ? test::oracle_multiply(a, b) : engine.multiply(a, b, on_gpu("two-pointer"));
  Report report;
  REQUIRE((engine.multiply(a, b, on_gpu("tile-tensor"), &report) == expected));
  REQUIRE(report.peak_device_bytes <= report.plan.device_need_bytes);
}

}  // namespace

TEST_CASE("tile-tensor: lists longer than the sums of 32 bits hold") {
  if (!test::device_runs("tile-tensor")) return;
  for (const std::uint32_t value : {1u, 255u, 256u, 65535u}) {
    test::MatrixBuilder a(1100, 64, 1);
    test::MatrixBuilder b(1100, 64, 2);
    for (std::uint32_t t = 0; t < 1100; ++t) {
      a.add_constant(3, t, value);
      b.add_constant(t, 1099, value == 65535 ? 1 : value);
      if (t % 10 == 0) b.add_constant(t, 5, 1);
    }
    INFO("value " << value);
    REQUIRE((multiply(a.matrix(), b.matrix(), on_gpu("tile-tensor")) == test::oracle_multiply(a.matrix(), b.matrix())));
  }
}

TEST_CASE("tile-tensor: lists that are stopped between lists that are not") {
  if (!test::device_runs("tile-tensor")) return;
  Engine engine;
  // Groups of 3,072 elements: 24 stages, saturated by the 16th where elements are large; several lists for each CTA.
  for (const std::uint32_t m : {8u, 48u}) {
    const std::uint32_t nb = 12'288 / m;
    const std::uint32_t group = nb / 4;
    test::MatrixBuilder a(nb, m, 1);
    test::MatrixBuilder b(nb, m, 2);
    for (std::uint32_t i = 0; i < nb; ++i) {
      for (std::uint32_t j = i / group * group; j < (i / group + 1) * group; ++j) {
        a.add_random(i, j, i / 7 % 3 == 0 ? 300 : 65535);
        b.add_random(i, j, j / 11 % 3 == 0 ? 300 : 65535);
      }
    }
    INFO("m " << m);
    check_product(engine, a.matrix(), b.matrix());
  }
}

TEST_CASE("tile-tensor: lines of tiles that are read in several parts") {
  if (!test::device_runs("tile-tensor")) return;
  // The largest side: a line has 512 words, of which a warp reads 32 and a CTA 256 at a time. B has tiles that meet
  // none of A's, and rows of C get the same tile from both ends of K.
  constexpr std::uint32_t kSide = 8;
  constexpr std::uint32_t kNb = (1u << 21) / kSide;
  test::MatrixBuilder a(kNb, kSide, 1);
  test::MatrixBuilder b(kNb, kSide, 2);
  for (std::uint32_t t = 0; t < 30; ++t) {
    const std::uint32_t k = t * 8'700;
    for (std::uint32_t row = 0; row < 40; ++row) {
      if ((row + t) % 3 != 0) a.add_random(row * 5'000, k, 2047);
    }
    for (std::uint32_t x = 0; x < 20; ++x) {
      if ((x + t) % 4 == 0) continue;
      b.add_random(k, x * 13'000, 2047);
      b.add_random(k + 16, x * 13'000 + t, 2047);  // the next tile along K
    }
  }
  REQUIRE((multiply(a.matrix(), b.matrix(), on_gpu("tile-tensor")) == test::oracle_multiply(a.matrix(), b.matrix())));
}

TEST_CASE("tile-tensor takes several panels for dense groups where memory is short") {
  if (!test::device_runs("tile-tensor")) return;
  for (const std::uint32_t m : {8u, 6u}) {
    const auto matrix = [&](std::uint64_t seed) {
      test::MatrixBuilder builder(8192, m, seed);
      for (std::uint32_t i = 0; i < 8192; ++i) {
        for (std::uint32_t j = i / 64 * 64; j < i / 64 * 64 + 64; ++j) builder.add_random(i, j, 2047);
      }
      return builder.matrix();
    };
    const BlockMatrix a = matrix(1);
    const BlockMatrix b = matrix(2);
    const ProductMatrix expected = multiply(a, b, on_gpu("two-pointer"));
    Options options = on_gpu("tile-tensor");
    Report report;
    INFO("m " << m);
    REQUIRE((multiply(a, b, options, &report) == expected));
    CHECK(report.num_panels == 1);
    options.memory_limit_bytes = std::uint64_t{m == 8 ? 400u : 320u} << 20;
    REQUIRE((multiply(a, b, options, &report) == expected));
    CHECK(report.num_panels > 1);
    CHECK(report.peak_device_bytes <= options.memory_limit_bytes);
  }
}

TEST_CASE("small tiles: for the sanitizers") {
  if (!test::device_runs("tile-tensor")) return;
  Engine engine;
  for (const std::uint32_t m : {1u, 4u, 5u, 8u, 48u}) {
    const std::uint32_t nb = 300 / m;
    INFO("m " << m);
    check_product(engine, matrix_where(nb, m, 2047, 1, groups_of(std::max(1u, 110 / m))),
                  matrix_where(nb, m, 2047, 2, groups_of(std::max(1u, 110 / m))));
    check_product(engine, test::random_matrix(m * 8, m, 20, 200, m), test::random_matrix(m * 8, m, 40, 200, m + 1));
  }
}
