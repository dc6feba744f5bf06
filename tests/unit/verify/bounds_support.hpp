// Tasks for lower bounds, and which claims they prove, by the definition.
#pragma once

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "base/run/bound_task.hpp"
#include "support/battery.hpp"
#include "support/memory_stream.hpp"

namespace spmm::test {

struct BoundCase {
  std::uint32_t n = 0;
  std::uint32_t m = 0;
  std::uint32_t blocks = 0;  ///< of each operand
  std::uint32_t largest = 0;
  std::uint32_t row_step = 1;  ///< one block row of so many is asked for
  std::uint32_t groups = 1;    ///< blocks lie in so many groups along the diagonal: most chunks of K are empty
};

/// Sums around the limit, so that some claims stay and others go.
inline std::vector<BoundCase> bound_cases() {
  return {{.n = 64, .m = 4, .blocks = 110, .largest = 65535},
          {.n = 300, .m = 3, .blocks = 3000, .largest = 22000, .row_step = 2},
          {.n = 270, .m = 5, .blocks = 1200, .largest = 24000},
          {.n = 264, .m = 8, .blocks = 500, .largest = 18000, .row_step = 3},
          {.n = 1200, .m = 8, .blocks = 18000, .largest = 22000, .row_step = 5, .groups = 6},
          {.n = 120, .m = 1, .blocks = 6000, .largest = 26000},
          {.n = 110, .m = 11, .blocks = 60, .largest = 24000},
          {.n = 640, .m = 64, .blocks = 60, .largest = 9300, .row_step = 4},
          {.n = 1056, .m = 48, .blocks = 400, .largest = 7700, .row_step = 3, .groups = 2},  // a block in two chunks
          {.n = 128, .m = 16, .blocks = 40, .largest = 200},
          {.n = 24, .m = 8, .blocks = 0, .largest = 9}};
}

/// Operands and claims of some block rows of C.
class BoundOperands {
 public:
  explicit BoundOperands(const BoundCase& c)
      : case_(c), a_(grouped(c, 1)), b_(grouped(c, 2)), source_a_(a_, "A"), source_b_(b_, "B") {
    for (std::uint32_t i = 0; i < c.n / c.m; i += c.row_step) rows_.push_back(i);
  }
  /// All block rows.
  BoundOperands(const BlockMatrix& a, const BlockMatrix& b)
      : case_{.n = a.n, .m = a.m}, a_(a), b_(b), source_a_(a_, "A"), source_b_(b_, "B") {
    for (std::uint32_t i = 0; i < a.n / a.m; ++i) rows_.push_back(i);
  }

  /// Nearly all blocks, the same ones each time.
  [[nodiscard]] std::vector<std::uint32_t> claims() const {
    const std::uint32_t nb = case_.n / case_.m;
    const std::uint64_t words = BoundTask::words_per_row(nb);
    std::vector<std::uint32_t> claims(rows_.size() * words, 0);
    std::mt19937_64 random(7);
    for (std::size_t x = 0; x < rows_.size(); ++x) {
      for (std::uint32_t j = 0; j < nb; ++j) {
        if (random() % 8 != 0) claims[x * words + j / 32] |= 1u << j % 32;
      }
    }
    return claims;
  }

  /// All blocks of the block rows.
  [[nodiscard]] std::vector<std::uint32_t> all_claims() const {
    const std::uint32_t nb = case_.n / case_.m;
    const std::uint64_t words = BoundTask::words_per_row(nb);
    std::vector<std::uint32_t> claims(rows_.size() * words, 0);
    for (std::size_t x = 0; x < rows_.size(); ++x) {
      for (std::uint32_t j = 0; j < nb; ++j) claims[x * words + j / 32] |= 1u << j % 32;
    }
    return claims;
  }

  /// By the definition: the sums of products of x >> shift, for every element.
  [[nodiscard]] std::vector<std::uint32_t> expected(std::vector<std::uint32_t> claims, std::uint32_t bits_a,
                                                    std::uint32_t bits_b) const {
    const std::uint32_t m = case_.m;
    const std::uint64_t words = BoundTask::words_per_row(case_.n / m);
    const BoundScale scale = BoundScale::of(largest(a_), largest(b_), bits_a, bits_b);
    const std::vector<std::uint32_t> of_a = dense(a_, scale.shift_a);
    const std::vector<std::uint32_t> of_b = dense(b_, scale.shift_b);
    const std::uint32_t n = case_.n;
    for (std::size_t x = 0; x < rows_.size(); ++x) {
      for (std::uint32_t r = 0; r < m; ++r) {
        std::vector<std::uint64_t> sums(n, 0);
        for (std::uint32_t k = 0; k < n; ++k) {
          const std::uint64_t factor = of_a[(std::size_t{rows_[x]} * m + r) * n + k];
          for (std::uint32_t c = 0; factor != 0 && c < n; ++c) sums[c] += factor * of_b[std::size_t{k} * n + c];
        }
        for (std::uint32_t c = 0; c < n; ++c) {
          const std::uint32_t j = c / m;
          if (sums[c] < scale.limit) claims[x * words + j / 32] &= ~(1u << j % 32);
        }
      }
    }
    return claims;
  }

  /// prover(task, run) on these claims.
  template <class Prover>
  bool prove(std::vector<std::uint32_t>& claims, const Prover& prover, unsigned num_threads = 2) const {
    StageClock clock;
    const ProgressFn no_progress;
    const Run run{.clock = clock, .on_progress = no_progress, .cancel = nullptr, .num_threads = num_threads};
    const BoundTask task{.a = source_a_,
                         .b = source_b_,
                         .rows = rows_,
                         .largest_a = largest(a_),
                         .largest_b = largest(b_),
                         .claims = claims};
    return prover(task, run);
  }

  /// Room for a few tiles of each operand.
  [[nodiscard]] std::uint64_t small_memory() const {
    const std::uint64_t line = (std::uint64_t{case_.n} + 1023) / 1024 * 1024;
    return 2 * 256 * line;
  }

 private:
  static BlockMatrix grouped(const BoundCase& c, std::uint64_t seed) {
    BlockMatrix matrix = random_matrix(c.n, c.m, c.blocks, c.largest, seed);
    const std::uint32_t group = c.n / c.m / c.groups;
    BlockMatrix kept{.n = c.n, .m = c.m, .index = {}, .values = {}};
    for (std::size_t x = 0; x < matrix.index.size(); ++x) {
      if (matrix.index[x].i / group != matrix.index[x].j / group) continue;
      kept.index.push_back(matrix.index[x]);
      kept.values.insert(kept.values.end(), matrix.block(x), matrix.block(x) + std::size_t{c.m} * c.m);
    }
    return kept;
  }
  /// [n, n] of x >> shift.
  static std::vector<std::uint32_t> dense(const BlockMatrix& matrix, std::uint32_t shift) {
    const std::uint32_t m = matrix.m;
    std::vector<std::uint32_t> all(std::size_t{matrix.n} * matrix.n, 0);
    for (std::size_t x = 0; x < matrix.index.size(); ++x) {
      for (std::uint32_t e = 0; e < m * m; ++e) {
        const std::size_t row = std::size_t{matrix.index[x].i} * m + e / m;
        all[row * matrix.n + std::size_t{matrix.index[x].j} * m + e % m] = matrix.block(x)[e] >> shift;
      }
    }
    return all;
  }
  static std::uint32_t largest(const BlockMatrix& matrix) {
    return matrix.values.empty() ? 0 : *std::max_element(matrix.values.begin(), matrix.values.end());
  }

  BoundCase case_;
  BlockMatrix a_;
  BlockMatrix b_;
  MemorySource source_a_;
  MemorySource source_b_;
  std::vector<std::uint32_t> rows_;
};

/// m = 1. Largest elements of 65,535, so that the limit for products of high bytes is 65,536: 255 * 255 + 2 * 255 =
/// 65,535 in column 0, one more in column 1, two more in column 2.
inline std::pair<BlockMatrix, BlockMatrix> operands_at_limit() {
  constexpr std::uint32_t kHighOfA[] = {255, 2, 1};
  BlockMatrix a{.n = 8, .m = 1, .index = {}, .values = {}};
  BlockMatrix b{.n = 8, .m = 1, .index = {}, .values = {}};
  for (std::uint32_t t = 0; t < 3; ++t) {
    a.index.push_back({.i = 5, .j = t});
    a.values.push_back(static_cast<std::uint16_t>(kHighOfA[t] << 8 | 0xFF));
    for (std::uint32_t j = 0; j < 3; ++j) {
      const std::uint32_t high = t < 2 ? 255 : j;
      b.index.push_back({.i = t, .j = j});
      b.values.push_back(static_cast<std::uint16_t>(high << 8 | 0xFF));
    }
  }
  return {a, b};
}

}  // namespace spmm::test
