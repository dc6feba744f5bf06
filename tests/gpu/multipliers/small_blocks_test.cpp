// small-blocks: rows around the borders between its three accumulators.
#include <cstdint>
#include <vector>

#include "kernels/small/launch.hpp"
#include "kernels/tuning.hpp"
#include "spmm/spmm.hpp"
#include "support/catch.hpp"
#include "support/gpu_kernels.hpp"
#include "support/matrices.hpp"
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
