// Makes operands block by block.
#pragma once

#include <cstdint>
#include <random>

#include "spmm/types.hpp"

namespace spmm::test {

inline constexpr std::uint32_t kFullRange = 65535;

/// Appends blocks to a matrix. The caller keeps positions distinct.
class MatrixBuilder {
 public:
  MatrixBuilder(std::uint32_t num_block_rows, std::uint32_t m, std::uint64_t seed)
      : random_(seed), matrix_{.n = num_block_rows * m, .m = m, .index = {}, .values = {}} {}

  /// Values: uniform in [0, max_value].
  void add_random(std::uint32_t i, std::uint32_t j, std::uint32_t max_value) {
    matrix_.index.push_back({.i = i, .j = j});
    for (std::uint32_t e = 0; e < matrix_.m * matrix_.m; ++e) {
      matrix_.values.push_back(static_cast<std::uint16_t>(below(std::uint64_t{max_value} + 1)));
    }
  }

  /// All elements equal.
  void add_constant(std::uint32_t i, std::uint32_t j, std::uint32_t value) {
    matrix_.index.push_back({.i = i, .j = j});
    matrix_.values.insert(matrix_.values.end(), std::size_t{matrix_.m} * matrix_.m, static_cast<std::uint16_t>(value));
  }

  /// Element of the block added last.
  std::uint16_t& element(std::uint32_t row, std::uint32_t col) {
    const std::size_t m = matrix_.m;
    return matrix_.values[matrix_.values.size() - m * m + row * m + col];
  }

  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }

  [[nodiscard]] const BlockMatrix& matrix() const { return matrix_; }

 private:
  std::mt19937_64 random_;
  BlockMatrix matrix_;
};

}  // namespace spmm::test
