// Hypersparse products where some result blocks have very many pairs: these lists are cut into parts whose sums are
// merged.
#include <algorithm>
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

constexpr std::uint32_t kSplitSides[] = {3, 4, 5, 8, 12, 16, 24, 32, 40, 64};

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

/// A block of A or B at inner index t of the split-K blocks.
struct Fill {
  std::uint32_t length;
  std::uint32_t m;

  /// Largest elements there: sums stay below 2^32, high and low bytes of both sides matter.
  [[nodiscard]] std::uint32_t max_of(std::uint32_t t, bool in_a) const {
    if (t % 5000 == 7) return 2047;  // at most four of these
    const std::uint32_t large = std::min(65535u, (1u << 31) / (length * m));
    if (t % 3 == 2) return std::min(15u, large);
    return (t % 3 == 0) == in_a ? large : 1;
  }
};

/// A: block row 1000 full, and scattered blocks. B: the neighbouring block columns 700, 701, 702 full (the middle one
/// of zeros), and scattered blocks. So three result blocks next to each other have `length` pairs each.
struct Cross {
  MatrixBuilder a;
  MatrixBuilder b;

  Cross(std::uint32_t length, std::uint32_t m) : a(length, m, 1), b(length, m, 2) {
    const Fill fill{.length = length, .m = m};
    for (std::uint32_t t = 0; t < length; ++t) {
      a.add_random(1000, t, fill.max_of(t, true));
      b.add_random(t, 700, fill.max_of(t, false));
      b.add_constant(t, 701, 0);
      b.add_random(t, 702, fill.max_of(t, false));
    }
    for (std::uint32_t x = 0; x < 1500; ++x) {
      if (x == 1000) continue;
      a.add_random(x, x * 7 % length, 2047);
      b.add_random(x * 5 % length, x < 700 ? x : x + 3, 2047);
    }
  }
};

/// Fewer for the largest blocks, so that the operands stay small.
std::uint32_t length_for(std::uint32_t m) {
  return m >= 40 ? 6'000 : 20'000;
}

const std::uint32_t* find_block(const ProductMatrix& c, BlockIndex at) {
  const auto found = std::lower_bound(c.index.begin(), c.index.end(), at);
  if (found == c.index.end() || *found != at) return nullptr;
  return c.values.data() + (found - c.index.begin()) * std::ptrdiff_t{c.m} * c.m;
}

}  // namespace

TEST_CASE("split-K blocks beside short lists give exact sums") {
  for (const std::uint32_t m : kSplitSides) {
    const Cross cross(length_for(m), m);
    const BlockMatrix& a = cross.a.matrix();
    const BlockMatrix& b = cross.b.matrix();
    INFO("m " << m);
    const ProductMatrix expected = multiply(a, b, with_kernel("row-merge"));
    if (m <= 8) REQUIRE((test::oracle_multiply(a, b) == expected));
    for (const std::uint32_t column : {700u, 702u}) {
      const std::uint32_t* const sums = find_block(expected, {.i = 1000, .j = column});
      REQUIRE(sums != nullptr);
      REQUIRE(*std::max_element(sums, sums + m * m) < kMaxVal);
    }
    REQUIRE(find_block(expected, {.i = 1000, .j = 701}) == nullptr);
    check_listed(a, b, expected);
  }
}

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
