// Every CUDA kernel against the oracle: small products, errors.
#include <cstdint>
#include <string>
#include <vector>

#include "spmm/spmm.hpp"
#include "support/catch.hpp"
#include "support/gpu_kernels.hpp"
#include "support/matrices.hpp"
#include "support/matrix_builder.hpp"
#include "support/memory_stream.hpp"
#include "support/oracle.hpp"

namespace {

using namespace spmm;
using test::on_gpu;

/// Short enough for the sanitizers, which follow every access.
void check_small_products(const std::vector<std::string>& kernels) {
  for (const std::uint32_t m : {1u, 2u, 3u, 4u, 5u, 8u, 16u, 32u}) {
    const BlockMatrix a = test::random_matrix(m * 8, m, 20, 65535, m);
    const BlockMatrix b = test::random_matrix(m * 8, m, 40, 2047, m + 1);
    const ProductMatrix expected = test::oracle_multiply(a, b);
    for (const std::string& kernel : kernels) {
      if (!test::takes_operands(kernel, m, 8)) continue;
      INFO("m " << m << ", kernel " << kernel);
      Report report;
      REQUIRE((multiply(a, b, on_gpu(kernel), &report) == expected));
      REQUIRE(report.saturated_elements == test::num_saturated(expected));
    }
  }
}

}  // namespace

TEST_CASE("small products: sparse kernels") {
  std::vector<std::string> kernels = test::kernels_here();
  std::erase(kernels, "dense-tensor");
  std::erase(kernels, "tile-tensor");
  check_small_products(kernels);
}

TEST_CASE("small dense: tensor-core kernels") {
  check_small_products({"dense-tensor", "tile-tensor"});
}

TEST_CASE("one long block row is cut into column chunks") {
  test::MatrixBuilder a(600, 64, 1);
  test::MatrixBuilder b(600, 64, 2);
  for (std::uint32_t t = 0; t < 40; ++t) a.add_random(5, t, test::kFullRange);
  for (std::uint32_t j = 0; j < 600; ++j) b.add_random(j % 40, j, 30);
  const ProductMatrix expected = test::oracle_multiply(a.matrix(), b.matrix());
  Options options = on_gpu("two-pointer");
  options.memory_limit_bytes = 72u << 20;  // a few hundred tiles, and less than both operands
  Report report;
  REQUIRE((test::multiply_into_sink(a.matrix(), b.matrix(), options, &report) == expected));
  REQUIRE(report.num_panels > 1);
  REQUIRE(report.pairs == 600);
}

TEST_CASE("too many launches of the host-driven kernel need force") {
  const BlockMatrix a = test::random_matrix(600, 1, 20'000, 9, 1);
  Options options = on_gpu("host-driven");
  options.force = false;
  CHECK_THROWS_AS(multiply(a, a, options), UsageError);
}

TEST_CASE("a device that does not exist is refused") {
  const BlockMatrix a = test::random_matrix(8, 8, 1, 9, 1);
  Options options = on_gpu("two-pointer");
  options.device = 4096;
  CHECK_THROWS_AS(multiply(a, a, options), DeviceError);
}
