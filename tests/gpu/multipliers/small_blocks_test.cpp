// small-blocks: rows around the borders between its three accumulators, chunks, panels, sums around 2^32.
#include <cstdint>
#include <vector>

#include "kernels/small/launch.hpp"
#include "kernels/tuning.hpp"
#include "spmm/spmm.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/gpu_kernels.hpp"
#include "support/matrix_builder.hpp"
#include "support/oracle.hpp"

namespace {

using namespace spmm;
using test::on_gpu;

/// B: row r has lengths[r] blocks, spread over all columns or side by side.
BlockMatrix rows_of_lengths(std::uint32_t nb, std::uint32_t m, const std::vector<std::uint32_t>& lengths,
                            std::uint32_t max_value, std::uint64_t seed) {
  test::MatrixBuilder b(nb, m, seed);
  for (std::uint32_t r = 0; r < lengths.size(); ++r) {
    const bool clustered = r % 3 == 1;
    const auto first = static_cast<std::uint32_t>(b.below(nb - lengths[r] + 1));
    const std::uint32_t step = nb / lengths[r];
    for (std::uint32_t t = 0; t < lengths[r]; ++t) {
      const auto within = static_cast<std::uint32_t>(b.below(step));
      b.add_random(r, clustered ? first + t : t * step + within, max_value);
    }
  }
  return b.matrix();
}

/// A: row i has blocks in these columns.
BlockMatrix rows_of_columns(std::uint32_t nb, std::uint32_t m, const std::vector<std::vector<std::uint32_t>>& rows,
                            std::uint32_t max_value, std::uint64_t seed) {
  test::MatrixBuilder a(nb, m, seed);
  for (std::uint32_t i = 0; i < rows.size(); ++i) {
    for (const std::uint32_t j : rows[i]) a.add_random(i, j, max_value);
  }
  return a.matrix();
}

kernels::SmallShape shape_of(std::uint32_t m, std::uint32_t nb) {
  return kernels::small_shape(m, nb, kernels::small_region_bytes());
}

/// Rows of A whose pairs lie around the borders of the accumulators, in an order that mixes them, with rows between
/// that have few pairs or none. B's rows are of lengths 1, 2, 4, ... so that any number of pairs is a sum of some.
struct Borders {
  BlockMatrix a;
  BlockMatrix b;
};

Borders borders(std::uint32_t m, std::uint32_t nb, std::uint32_t max_value, std::uint64_t seed) {
  const kernels::SmallShape shape = shape_of(m, nb);
  std::vector<std::uint32_t> lengths;
  for (std::uint32_t length = 1; length <= nb / 4; length *= 2) lengths.push_back(length);
  const auto num_lengths = static_cast<std::uint32_t>(lengths.size());
  for (std::uint32_t t = 0; t < 40; ++t) lengths.push_back(3);  // short segments, many of them
  std::vector<std::vector<std::uint32_t>> rows;
  const auto add = [&](std::uint64_t pairs) {
    std::vector<std::uint32_t> columns;
    for (std::uint32_t x = 0; x < num_lengths; ++x) {
      if ((pairs >> x & 1) != 0) columns.push_back(x);
    }
    rows.push_back(columns);
  };
  for (const std::uint64_t border :
       {std::uint64_t{32}, std::uint64_t{64}, std::uint64_t{128}, std::uint64_t{256}, std::uint64_t{shape.hash_slots},
        std::uint64_t{shape.rank_slots}, std::uint64_t{shape.rank_pairs}}) {
    if (border == 0) continue;  // no row is ranked
    for (const int off : {-1, 0, 1}) {
      add(border + static_cast<std::uint64_t>(off));
      for (std::uint32_t t = 0; t < rows.size() % 5; ++t) add(t * 7);
      rows.push_back({nb - 1});  // no such row of B
    }
  }
  std::vector<std::uint32_t> many(40);
  for (std::uint32_t t = 0; t < 40; ++t) many[t] = num_lengths + t;
  rows.push_back(many);
  for (std::uint32_t t = 0; t < 100; ++t) add(t);
  return {.a = rows_of_columns(nb, m, rows, max_value, seed),
          .b = rows_of_lengths(nb, m, lengths, max_value, seed + 100)};
}

}  // namespace

TEST_CASE("small-blocks: rows around the borders of hashed, ranked and dense sums") {
  for (const std::uint32_t m : {1u, 2u, 3u, 4u}) {
    // One chunk of each kind; several dense ones; several ranked ones.
    const kernels::SmallShape whole = shape_of(m, 1'000'000);
    for (const std::uint32_t nb : {whole.dense_columns - 1, 3 * whole.dense_columns + 5, whole.rank_columns + 1000}) {
      for (const std::uint32_t max_value : {0u, 1u, 2047u, 65'535u}) {
        const Borders product = borders(m, nb, max_value, m + max_value);
        INFO("m " << m << ", " << nb << " block columns, values to " << max_value);
        REQUIRE(
            (multiply(product.a, product.b, on_gpu("small-blocks")) == test::oracle_multiply(product.a, product.b)));
      }
    }
  }
}

namespace {

/// Rows of up to `most` pairs, which meet in few columns and in many. Values: most <= nb.
Borders short_rows(std::uint32_t nb, std::uint32_t most, std::uint32_t max_value, std::uint64_t seed) {
  test::MatrixBuilder b(nb, 1, seed);
  constexpr std::uint32_t kSame = 2100;  // rows that have the same two blocks
  for (std::uint32_t t = 0; t < kSame; ++t) {
    b.add_random(t, 5, max_value);
    b.add_random(t, nb - 1, max_value);
  }
  std::vector<std::uint32_t> lengths;
  for (std::uint32_t length = 1; length <= most; length *= 2) lengths.push_back(length);
  for (std::uint32_t x = 0; x < lengths.size(); ++x) {
    for (std::uint32_t t = 0; t < lengths[x]; ++t) b.add_random(kSame + x, t * (nb / lengths[x]) + x, max_value);
  }
  std::vector<std::vector<std::uint32_t>> rows;
  for (std::uint32_t limit = 32; limit <= most; limit *= 2) {
    for (const std::uint32_t pairs : {limit / 2 - 1, limit / 2, limit / 2 + 1, limit - 1, limit}) {
      std::vector<std::uint32_t> spread;
      for (std::uint32_t x = 0; x < lengths.size(); ++x) {
        if ((pairs >> x & 1) != 0) spread.push_back(kSame + x);
      }
      rows.push_back(spread);
      std::vector<std::uint32_t> same(pairs / 2);  // all sums of two columns go across lanes
      for (std::uint32_t t = 0; t < same.size(); ++t) same[t] = t * 2 % kSame;
      rows.push_back(same);
      rows.push_back({nb - 3});  // no such row of B
    }
  }
  for (std::uint32_t t = 0; t < 50; ++t) rows.push_back({t, kSame + t % 3});
  return {.a = rows_of_columns(nb, 1, rows, max_value, seed + 1), .b = b.matrix()};
}

}  // namespace

TEST_CASE("small-blocks: rows whose pairs warps sort") {
  const std::uint32_t most_columns = (1u << 21) - 1;  // for kSortedRowPairs
  for (const std::uint32_t most : {32u, 64u, 128u, 256u, 512u, 1024u, kernels::kSortedRowPairs}) {
    for (const std::uint32_t nb : {5000u, most_columns, most_columns + 1}) {
      for (const std::uint32_t max_value : {1u, 2047u, 65'535u}) {
        const Borders product = short_rows(nb, most, max_value, most + max_value);
        INFO(most << " pairs at most, " << nb << " columns, values to " << max_value);
        REQUIRE(
            (multiply(product.a, product.b, on_gpu("small-blocks")) == test::oracle_multiply(product.a, product.b)));
      }
    }
  }
}

TEST_CASE("small-blocks: rows of few pairs, which warps sort together") {
  constexpr std::uint32_t kMostForEight = (1u << 21) - 1;  // columns: keys number 2^32 of 8 rows with 256 pairs
  constexpr std::uint32_t kRows = 97;
  for (const std::uint32_t row_blocks : {1u, 2u, 5u, 11u}) {  // of A and of B: up to 121 pairs, 2 rows at once
    for (const std::uint32_t nb : {kRows, 3000u, kMostForEight, kMostForEight + 1}) {
      test::MatrixBuilder a(nb, 1, row_blocks);
      test::MatrixBuilder b(nb, 1, row_blocks + 1);
      for (std::uint32_t i = 0; i < kRows; ++i) {
        const std::uint32_t row = i % 5 == 4 ? nb - kRows + i : i;
        for (std::uint32_t t = 0; t < i % (row_blocks + 1); ++t) a.add_random(row, t * 7 + i % 7, 65'535);
        for (std::uint32_t t = 0; t < row_blocks; ++t) b.add_random(i, nb - 1 - t * 8 - i % 8, 65'535);
      }
      INFO(row_blocks << " blocks in a row, " << nb << " columns");
      REQUIRE(
          (multiply(a.matrix(), b.matrix(), on_gpu("small-blocks")) == test::oracle_multiply(a.matrix(), b.matrix())));
    }
  }
}

TEST_CASE("small-blocks: panels of some rows, and of some columns of a row") {
  for (const std::uint32_t m : {1u, 2u, 3u}) {
    const std::uint32_t nb = 300'000;
    test::MatrixBuilder a(nb, m, 1);
    test::MatrixBuilder b(nb, m, 2);
    for (std::uint32_t i = 0; i < 20; ++i) a.add_random(i, i % 3, test::kFullRange);
    for (std::uint32_t t = 0; t < 4; ++t) a.add_random(25, t, 2047);
    for (std::uint32_t j = 0; j < nb; ++j) b.add_random(j % 4, j, 255);
    const ProductMatrix expected = test::oracle_multiply(a.matrix(), b.matrix());
    const std::uint64_t per_block = output_record_bytes(m) * 2 + std::uint64_t{4} * m * m + 73;
    Options options = on_gpu("small-blocks");
    options.memory_limit_bytes = (70u << 20) + (std::uint64_t{300'000} * 16 * m * m) + per_block * 200'000;
    Report report;
    INFO("m " << m);
    REQUIRE((multiply(a.matrix(), b.matrix(), options, &report) == expected));
    CHECK(report.num_panels > 4);
    CHECK(report.peak_device_bytes <= report.plan.device_need_bytes);
  }
}

TEST_CASE("small-blocks: more C blocks in a row than sums fit at a time, and rows of very different length") {
  for (const std::uint32_t m : {1u, 2u, 3u, 4u}) {
    const std::uint32_t nb = 262'144;
    const std::uint32_t slots = shape_of(m, nb).rank_slots;
    REQUIRE(shape_of(m, nb).rank_pairs > 2 * slots);
    for (const std::uint32_t max_value : {2047u, test::kFullRange}) {
      test::MatrixBuilder a(nb, m, m);
      test::MatrixBuilder b(nb, m, m + 1);
      // Rows 7, 8, 9: two windows of sums and one block more; most of both rows of B meet in the same columns.
      for (const std::uint32_t i : {7u, 8u, 9u}) {
        for (std::uint32_t t = 0; t < 3; ++t) a.add_random(i, t + (i == 8 ? 1 : 0), max_value);
      }
      for (std::uint32_t i = 10; i < 1000; ++i) a.add_random(i, 4 + i % 5, max_value);
      for (std::uint32_t x = 0; x < slots; ++x) {
        b.add_random(0, 2 * x + 100, max_value);
        b.add_random(1, 2 * x + 101, max_value);
        if (x % 3 == 0) b.add_random(2, 2 * x + 101, max_value);
      }
      b.add_random(3, nb - 1, max_value);
      for (std::uint32_t t = 4; t < 9; ++t) b.add_random(t, t * 50'000 % nb, max_value);
      b.add_random(2, 5, max_value);
      INFO("m " << m << ", values to " << max_value);
      REQUIRE(
          (multiply(a.matrix(), b.matrix(), on_gpu("small-blocks")) == test::oracle_multiply(a.matrix(), b.matrix())));
    }
  }
}

TEST_CASE("small-blocks: huge n with short rows, and what it refuses") {
  const std::uint32_t n = 4'294'967'295u;
  test::MatrixBuilder a(n, 1, 1);
  test::MatrixBuilder b(n, 1, 2);
  for (std::uint32_t i = 0; i < 400; ++i) {
    a.add_random(n - 1 - i * 7, i % 9, test::kFullRange);
    a.add_random(n - 1 - i * 7, n - 1 - i, test::kFullRange);
    if (i < 180) b.add_random(i % 9, n - 1 - i * 1000, test::kFullRange);
    b.add_random(n - 1 - i, i, 77);
  }
  REQUIRE((multiply(a.matrix(), b.matrix(), on_gpu("small-blocks")) == test::oracle_multiply(a.matrix(), b.matrix())));
  const BlockMatrix empty{.n = n, .m = 1, .index = {}, .values = {}};
  CHECK(multiply(a.matrix(), empty, on_gpu("small-blocks")).index.empty());
  CHECK(multiply(empty, b.matrix(), on_gpu("small-blocks")).index.empty());
  const BlockMatrix five = test::random_matrix(50, 5, 20, 100, 1);
  CHECK_THROWS_AS(multiply(five, five, on_gpu("small-blocks")), UsageError);
}

TEST_CASE("small blocks of hashed, ranked and dense sums") {  // for the sanitizers
  for (const std::uint32_t m : {1u, 3u, 4u}) {
    const kernels::SmallShape shape = shape_of(m, 1'000'000);
    for (const std::uint32_t nb : {shape.dense_columns / 4, shape.rank_columns + 1000}) {
      const Borders product = borders(m, nb, 2047, m);
      INFO("m " << m << ", " << nb << " block columns");
      REQUIRE((multiply(product.a, product.b, on_gpu("small-blocks")) == test::oracle_multiply(product.a, product.b)));
    }
  }
}
