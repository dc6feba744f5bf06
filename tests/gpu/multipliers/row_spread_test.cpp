// row-spread where it knows its C blocks before it multiplies, and where it does not.
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "spmm/spmm.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/gpu_kernels.hpp"
#include "support/matrix_builder.hpp"
#include "support/oracle.hpp"

namespace {

using namespace spmm;
using test::MatrixBuilder;

void check_spread(const BlockMatrix& a, const BlockMatrix& b) {
  Report report;
  REQUIRE((multiply(a, b, test::on_gpu("row-spread"), &report) == test::oracle_multiply(a, b)));
  CHECK(report.plan.kernel == "row-spread");
  CHECK(report.peak_device_bytes <= report.plan.device_need_bytes);
}

}  // namespace

TEST_CASE("row-spread: no C block can be zero, some are, all are") {
  for (const std::uint32_t m : {1u, 3u, 4u, 5u, 8u, 12u, 16u, 24u, 33u}) {
    const std::size_t elements = std::size_t{m} * m;
    const std::uint32_t nb = 2600 / m + 40;
    for (const std::uint32_t largest : {200u, 60'000u}) {
      BlockMatrix full_a = test::random_matrix(m * nb, m, 4 * nb, largest, m);
      BlockMatrix full_b = test::random_matrix(m * nb, m, 6 * nb, largest, m + 1);
      for (std::uint16_t& value : full_a.values) ++value;
      for (std::uint16_t& value : full_b.values) ++value;
      INFO("m " << m << ", elements to " << largest);
      check_spread(full_a, full_b);
      BlockMatrix a = full_a;
      for (std::size_t x = 0; x < a.index.size(); x += 3) {
        for (std::size_t e = 0; e < elements; ++e) a.values[x * elements + e] = 0;
      }
      check_spread(a, full_b);
      BlockMatrix b = full_b;
      std::fill_n(b.values.begin() + static_cast<std::ptrdiff_t>(elements), elements, std::uint16_t{0});
      check_spread(full_a, b);
      std::fill(a.values.begin(), a.values.end(), std::uint16_t{0});
      check_spread(a, full_b);
    }
  }
}

TEST_CASE("row-spread: rows of A around the blocks of a round, long and short rows of B") {
  for (const std::uint32_t m : {1u, 4u, 7u, 8u, 16u}) {
    for (const std::uint32_t value : {1u, 65'534u}) {
      const std::uint32_t nb = 1200;
      MatrixBuilder a(nb, m, 1);
      MatrixBuilder b(nb, m, 2);
      const std::uint32_t lengths[] = {1, 2, 31, 33, 63, 65, 511, 512, 513, 1025};
      for (std::uint32_t row = 0; row < std::size(lengths); ++row) {
        for (std::uint32_t t = 0; t < lengths[row]; ++t) a.add_constant(row * 7, t, 1 + (t + row) % value);
      }
      for (std::uint32_t t = 0; t < nb; ++t) {
        const std::uint32_t length = t == 0 ? nb : t % 50 == 1 ? 90 : t % 3;
        for (std::uint32_t x = 0; x < length; ++x) b.add_constant(t, (t * 5 + x) % nb, 1 + (t + x) % value);
      }
      INFO("m " << m << ", elements to " << value);
      check_spread(a.matrix(), b.matrix());
    }
  }
}

TEST_CASE("row-spread: checked sums in bins, one with too many pairs, a row with too many blocks, zero C blocks") {
  for (const std::uint32_t m : {5u, 6u, 8u}) {
    const std::size_t elements = std::size_t{m} * m;
    for (const std::uint32_t nb : {140u, 560u}) {
      const std::uint32_t a_row = nb == 140 ? 24 : 48;
      MatrixBuilder a(nb, m, 1);
      MatrixBuilder b(nb, m, 2);
      for (std::uint32_t row = 0; row < nb; ++row) {  // 2.4 pairs per C block
        for (std::uint32_t t = 0; t < (row == 3 ? nb : a_row); ++t) {
          a.add_constant(row, (row * 5 + t) % nb, t % 5 == 0 ? 65'000 : 1 + t);
        }
        b.add_constant(row, 0, 1 + row);  // C block (3, 0) has nb pairs
        for (std::uint32_t t = 1; t < a_row * 7 / 12; ++t) {
          b.add_constant(row, 1 + (row * 11 + t * 3) % (nb - 1), t % 7 == 0 ? 65'535 : 7 * t);
        }
      }
      INFO("m " << m << ", " << nb << " block rows");
      check_spread(a.matrix(), b.matrix());
      BlockMatrix zeros = a.matrix();
      for (std::size_t x = 0; x < zeros.index.size(); ++x) {
        if (x % 3 == 0 || x < 3 * a_row) std::fill_n(zeros.values.begin() + x * elements, elements, std::uint16_t{0});
      }
      check_spread(zeros, b.matrix());
    }
  }
}

TEST_CASE("row-spread: short segments in units, few blocks of B in all, more units than are listed at once") {
  for (const std::uint32_t m : {3u, 4u, 6u, 8u}) {
    for (const std::uint32_t value : {1u, 65'534u}) {
      INFO("m " << m << ", elements to " << value);
      const std::uint32_t nb = 1200;
      MatrixBuilder a(nb, m, 1);
      MatrixBuilder b(nb, m, 2);
      for (std::uint32_t t = 0; t < nb; ++t) {
        if (t < 600) a.add_constant(0, t, 1 + t % value);
        if (t % 5 == 0) a.add_constant(17, t, 1 + t % value);
        if (t % 400 == 399) a.add_constant(nb - 1, t, 1 + t % value);
        const std::uint32_t length = t < 600 ? 40 : 1;
        for (std::uint32_t x = 0; x < length; ++x) b.add_constant(t, (t * 7 + x) % nb, 1 + (t + x) % value);
      }
      check_spread(a.matrix(), b.matrix());
      for (std::uint32_t count = 1; count <= 9; ++count) {
        MatrixBuilder few(nb, m, 3);
        for (std::uint32_t x = 0; x < count; ++x) few.add_constant(x / 3 * 5, nb - 1 - x * 11, 1 + x % value);
        check_spread(a.matrix(), few.matrix());
      }
    }
  }
}

TEST_CASE("small row-spread: C blocks that are zero and none, one round and several") {
  for (const std::uint32_t m : {1u, 4u, 5u, 8u, 16u, 33u}) {
    for (const std::uint32_t largest : {200u, 60'000u}) {
      BlockMatrix a = test::random_matrix(m * 30, m, 70, largest, m);
      BlockMatrix b = test::random_matrix(m * 30, m, 90, largest, m + 1);
      for (std::uint16_t& value : a.values) ++value;
      for (std::uint16_t& value : b.values) ++value;
      INFO("m " << m << ", elements to " << largest);
      check_spread(a, b);
      std::fill_n(b.values.begin(), std::size_t{9} * m * m, std::uint16_t{0});
      check_spread(a, b);
    }
    MatrixBuilder a(600, m, 1);
    MatrixBuilder b(600, m, 2);
    for (std::uint32_t t = 0; t < 520; ++t) a.add_constant(7, t, 1);  // more than a round
    for (std::uint32_t t = 0; t < 600; t += 3) b.add_constant(t, t / 9, 1);
    check_spread(a.matrix(), b.matrix());
  }
}
