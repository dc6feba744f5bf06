// Every CUDA kernel against the oracle: small products, panels, limits, errors.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "spmm/spmm.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/gpu_kernels.hpp"
#include "support/matrix_builder.hpp"
#include "support/memory_stream.hpp"
#include "support/oracle.hpp"

namespace {

using namespace spmm;
using test::on_gpu;
using test::Operands;

/// Limits that leave room for a few hundred tiles of 64 x 64, and for less than both operands, in addition to the work
/// space.
constexpr std::uint64_t kLimitForPanels = 100u << 20;
constexpr std::uint64_t kLimitForSlabs = 72u << 20;

}  // namespace

namespace {

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

TEST_CASE("small battery: sparse kernels") {
  std::vector<std::string> kernels = test::kernels_here();
  std::erase(kernels, "dense-tensor");
  std::erase(kernels, "tile-tensor");
  check_small_products(kernels);
}

TEST_CASE("small dense: tensor-core kernels") {
  check_small_products({"dense-tensor", "tile-tensor"});
}

TEST_CASE("block rows and columns around chunk borders of the merge") {
  for (const std::uint32_t length : {63u, 64u, 65u, 255u, 256u, 257u, 511u, 512u, 513u, 1500u}) {
    test::MatrixBuilder a(2000, 4, length);
    test::MatrixBuilder b(2000, 4, length + 1);
    for (std::uint32_t t = 0; t < length; ++t) {
      a.add_random(7, t, 2000);
      a.add_random(8, 1999 - t, test::kFullRange);
      b.add_random(t, 3, 2000);
      b.add_random(1999 - t, 5, test::kFullRange);
    }
    const ProductMatrix expected = test::oracle_multiply(a.matrix(), b.matrix());
    for (const std::string& kernel : test::kernels_here()) {
      INFO("length " << length << ", kernel " << kernel);
      REQUIRE((multiply(a.matrix(), b.matrix(), on_gpu(kernel)) == expected));
    }
  }
}

TEST_CASE("many panels give the bytes of one panel, and the limit holds") {
  const BlockMatrix a = test::random_matrix(64 * 512, 64, 900, 65535, 5);
  const BlockMatrix b = test::random_matrix(64 * 512, 64, 900, 65535, 6);
  Report one;
  const ProductMatrix expected = multiply(a, b, on_gpu("two-pointer"), &one);
  for (const std::string& kernel : test::kernels_here()) {
    if (kernel.find("dense") == 0 || kernel == "tile-tensor") continue;  // B as a whole does not fit
    if (!test::takes_operands(kernel, a.m, a.n / a.m)) continue;         // small_blocks_test.cpp, ranked_test.cpp
    Options options = on_gpu(kernel);
    options.memory_limit_bytes = kLimitForPanels;
    Report report;
    INFO("kernel " << kernel);
    REQUIRE((multiply(a, b, options, &report) == expected));
    REQUIRE(report.saturated_elements == test::num_saturated(expected));
    REQUIRE(report.num_panels > one.num_panels);
    REQUIRE(report.peak_device_bytes <= kLimitForPanels);
    REQUIRE(report.peak_device_bytes <= report.plan.device_need_bytes);
  }
}

TEST_CASE("operands that do not fit go through in slabs") {
  const BlockMatrix a = test::random_matrix(64 * 512, 64, 900, 65535, 5);
  const BlockMatrix b = test::random_matrix(64 * 512, 64, 900, 65535, 6);
  const ProductMatrix expected = multiply(a, b, on_gpu("two-pointer"));
  for (const std::string kernel : {"auto", "two-pointer", "pair-list"}) {
    Options options = on_gpu(kernel);
    options.memory_limit_bytes = kLimitForSlabs;
    Report report;
    INFO("kernel " << kernel);
    REQUIRE((multiply(a, b, options, &report) == expected));
    CHECK(report.saturated_elements == test::num_saturated(expected));
    CHECK(report.plan.num_a_slabs * report.plan.num_b_slabs > 1);
    CHECK(report.peak_device_bytes <= kLimitForSlabs);
  }
}

TEST_CASE("small listed C blocks: some cannot be zero, and the blocks that make them so") {
  for (const std::uint32_t m : {3u, 4u, 5u, 8u, 12u, 16u, 24u}) {
    const std::size_t elements = std::size_t{m} * m;
    BlockMatrix full_a = test::random_matrix(m * 400, m, 300, 60000, m);
    BlockMatrix full_b = test::random_matrix(m * 400, m, 300, 60000, m + 1);
    for (std::uint16_t& value : full_a.values) ++value;
    for (std::uint16_t& value : full_b.values) ++value;
    const auto check = [&](const BlockMatrix& a, const BlockMatrix& b, const std::string& name) {
      INFO(name << ", m " << m);
      REQUIRE((multiply(a, b, on_gpu("rows")) == test::oracle_multiply(a, b)));
    };
    check(full_a, full_b, "nothing is zero");
    for (const std::size_t block : {0u, 299u}) {
      BlockMatrix a = full_a;  // nothing but column m - 1
      for (std::size_t e = 0; e < elements; ++e) {
        if (e % m != m - 1) a.values[block * elements + e] = 0;
      }
      check(a, full_b, "a block of A with columns of zeros");
      BlockMatrix b = full_b;  // all of B's blocks that this one meets lose row m - 1
      for (std::size_t x = 0; x < b.index.size(); ++x) {
        if (b.index[x].i != a.index[block].j) continue;
        for (std::size_t c = 0; c < m; ++c) b.values[x * elements + (m - 1) * m + c] = 0;
      }
      check(a, b, "products that vanish");
      BlockMatrix gap_a = full_a;  // one column of zeros, which meets nothing but a row
      BlockMatrix gap_b = full_b;
      for (std::size_t r = 0; r < m; ++r) gap_a.values[block * elements + r * m] = 0;
      for (std::size_t x = 0; x < gap_b.index.size(); ++x) {
        if (gap_b.index[x].i != gap_a.index[block].j) continue;
        std::fill_n(gap_b.values.begin() + static_cast<std::ptrdiff_t>(x * elements + m), elements - m,
                    std::uint16_t{0});
      }
      check(gap_a, gap_b, "products of one column and one row that vanish");
      BlockMatrix hole = full_b;
      std::fill_n(hole.values.begin() + static_cast<std::ptrdiff_t>(block * elements), elements, std::uint16_t{0});
      check(full_a, hole, "a block of B of zeros");
    }
  }
}

TEST_CASE("one long block row is cut into column chunks") {
  test::MatrixBuilder a(600, 64, 1);
  test::MatrixBuilder b(600, 64, 2);
  for (std::uint32_t t = 0; t < 40; ++t) a.add_random(5, t, test::kFullRange);
  for (std::uint32_t j = 0; j < 600; ++j) b.add_random(j % 40, j, 30);
  const ProductMatrix expected = test::oracle_multiply(a.matrix(), b.matrix());
  Options options = on_gpu("two-pointer");
  options.memory_limit_bytes = kLimitForSlabs;
  Report report;
  REQUIRE((test::multiply_into_sink(a.matrix(), b.matrix(), options, &report) == expected));
  REQUIRE(report.num_panels > 1);
  REQUIRE(report.pairs == 600);
}

TEST_CASE("the report counts pairs and blocks") {
  const BlockMatrix a = test::random_matrix(8 * 100, 8, 1000, 2047, 1);
  const BlockMatrix b = test::random_matrix(8 * 100, 8, 900, 2047, 2);
  std::vector<std::uint64_t> in_column(100, 0);
  for (const BlockIndex& at : a.index) ++in_column[at.j];
  std::uint64_t pairs = 0;
  for (const BlockIndex& at : b.index) pairs += in_column[at.i];
  Report report;
  const ProductMatrix product = multiply(a, b, on_gpu("two-pointer"), &report);
  CHECK(report.pairs == pairs);
  CHECK(report.c.num_blocks == product.index.size());
  CHECK(report.peak_device_bytes > 0);
  CHECK(report.stage(Stage::multiply).s > 0);
  CHECK(report.stage(Stage::read).bytes == (a.index.size() + b.index.size()) * input_record_bytes(8));
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
