// Operands sorted by counting: by bitmaps, by comparing, and where they must be sorted otherwise.
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/tuning.hpp"
#include "spmm/spmm.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/gpu_kernels.hpp"
#include "support/matrix_builder.hpp"
#include "support/oracle.hpp"

namespace {

using namespace spmm;
using test::on_gpu;

/// Blocks at random, and rows with as many as are asked for: (row, blocks).
BlockMatrix scattered(std::uint32_t nb, std::uint32_t m, std::uint32_t count, std::uint64_t seed,
                      const std::vector<std::pair<std::uint32_t, std::uint32_t>>& long_rows = {}) {
  test::MatrixBuilder out(nb, m, seed);
  std::set<std::pair<std::uint32_t, std::uint32_t>> taken;
  const auto add = [&](std::uint32_t i, std::uint32_t j) {
    if (taken.emplace(i, j).second) out.add_random(i, j, 2047);
  };
  for (const auto& [row, blocks] : long_rows) {
    for (std::uint32_t x = 0; x < blocks; ++x) add(row, (x * 7919 + 7) % nb);  // in no order
  }
  while (taken.size() < count) {
    const auto i = static_cast<std::uint32_t>(out.below(nb));
    add(i, static_cast<std::uint32_t>(out.below(nb)));
  }
  return out.matrix();
}

void check_product(const BlockMatrix& a, const BlockMatrix& b,
                   const std::vector<std::string>& kernels = {"rows", "two-pointer"}) {
  const ProductMatrix expected = test::oracle_multiply(a, b);
  for (const std::string& kernel : kernels) {
    INFO("nb " << a.n / a.m << ", m " << a.m << ", kernel " << kernel);
    REQUIRE((multiply(a, b, on_gpu(kernel)) == expected));
  }
}

}  // namespace

TEST_CASE("a block that comes twice is found whichever way rows are sorted") {
  for (const std::uint32_t nb : {500u, kernels::kBitmapColumns + 1, 100'000u}) {
    const BlockMatrix good = scattered(nb, 4, 20'000, nb);
    for (const std::uint32_t at : {1u, 12'345u, 19'999u}) {
      BlockMatrix bad = good;
      bad.index[at] = bad.index[at / 2];
      for (const bool is_b : {false, true}) {
        INFO("nb " << nb << ", record " << at << ", in B " << is_b);
        const std::string text =
            test::message_of<FormatError>([&] { multiply(is_b ? good : bad, is_b ? bad : good, on_gpu("rows")); });
        CHECK(test::has(text, std::to_string(at)));
        CHECK(test::has(text, std::to_string(at / 2)));
      }
    }
  }
}

TEST_CASE("small row sort: by bitmaps, by counting, and otherwise where one is long") {
  for (const std::uint32_t nb : {1u, 33u, 300u}) {
    check_product(scattered(nb, 4, nb, 1, {{nb / 2, nb}}), scattered(nb, 4, nb, 2), {"rows"});
  }
  for (const std::uint32_t longest : {3u, kernels::kCountedRowBlocks, kernels::kCountedRowBlocks + 1}) {
    INFO("longest row " << longest);
    constexpr std::uint32_t kWide = kernels::kBitmapColumns + 17;  // counted: at most two block rows for each block
    check_product(scattered(kWide, 4, kWide / 2 + 9, 1, {{kWide - 1, longest}}), scattered(kWide, 4, 50, 2), {"rows"});
    check_product(scattered(2000, 4, 400, 3, {{5, 1}}), scattered(2000, 4, 300, 4, {{7, longest}}));
  }
}
