// Lists of pairs that are cut into parts whose sums are merged.
#include <cstdint>
#include <set>
#include <string>

#include "kernels/tuning.hpp"
#include "spmm/spmm.hpp"
#include "support/catch.hpp"
#include "support/matrix_builder.hpp"
#include "support/oracle.hpp"

namespace {

using namespace spmm;
using kernels::kSplitKPairs;
using test::MatrixBuilder;

Options with_kernel(const std::string& kernel) {
  Options options;
  options.backend = kernel == "row-merge" ? Backend::cpu : Backend::cuda;
  options.kernel = kernel;
  return options;
}

std::uint64_t num_rows(const BlockMatrix& a) {
  std::set<std::uint32_t> rows;
  for (const BlockIndex& at : a.index) rows.insert(at.i);
  return rows.size();
}

/// Both kernels that list pairs give the expected product, and `rows` does list them.
void check_listed(const BlockMatrix& a, const BlockMatrix& b, const ProductMatrix& expected) {
  for (const std::string kernel : {"rows", "pair-list"}) {
    Report report;
    INFO("m " << a.m << ", kernel " << kernel);
    REQUIRE((multiply(a, b, with_kernel(kernel), &report) == expected));
    REQUIRE(report.peak_device_bytes <= report.plan.device_need_bytes);
    // The rule of cut_panels, with one panel and every row of A in it.
    REQUIRE(report.num_panels == 1);
    const auto all_c_blocks = static_cast<double>(num_rows(a) * (a.n / a.m));
    REQUIRE(static_cast<double>(report.pairs) < kernels::kEscPairsPerBlock * all_c_blocks);
  }
}

}  // namespace

TEST_CASE("small split-K: lengths around the limit and around the parts") {
  const std::uint32_t lengths[] = {3,
                                   kSplitKPairs - 1,
                                   kSplitKPairs,
                                   1,
                                   kSplitKPairs + 1,
                                   kSplitKPairs + 2,
                                   500,
                                   2 * kSplitKPairs - 1,
                                   2 * kSplitKPairs,
                                   2 * kSplitKPairs + 1};
  constexpr std::uint32_t kBlockRows = 20'000;
  for (const std::uint32_t m : {4u, 5u, 8u, 16u}) {
    MatrixBuilder a(kBlockRows, m, m);
    MatrixBuilder b(kBlockRows, m, m + 1);
    std::uint32_t row = 3;
    for (const std::uint32_t length : lengths) {
      for (std::uint32_t t = 0; t < length; ++t) a.add_random(row, t, t % 2 == 0 ? 200 : 1);
      row += 11;
    }
    for (std::uint32_t t = 0; t <= 2 * kSplitKPairs; ++t) b.add_random(t, 4321, t % 2 == 0 ? 1 : 200);
    INFO("m " << m);
    check_listed(a.matrix(), b.matrix(), test::oracle_multiply(a.matrix(), b.matrix()));
  }
}
