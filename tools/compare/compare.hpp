// Compares two matrix files element by element.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "tools/common/matrix_file.hpp"

namespace spmm::tools {

/// An element that differs. A side without a value has no such block; it counts as 0.
struct Difference {
  std::uint64_t row = 0;
  std::uint64_t col = 0;
  std::optional<std::uint32_t> left;
  std::optional<std::uint32_t> right;
};

struct Comparison {
  std::uint64_t elements = 0;         ///< elements that differ, a missing block taken as zeros
  std::uint64_t blocks = 0;           ///< blocks of both files that differ in some element
  std::uint64_t only_in_left = 0;     ///< blocks that the right file does not have
  std::uint64_t only_in_right = 0;    ///< blocks that the left file does not have
  std::uint64_t only_zeros = 0;       ///< how many of those are all zero
  std::uint64_t saturated_left = 0;   ///< elements of the left file at the limit, if it is a result
  std::uint64_t saturated_right = 0;  ///< the same of the right file

  [[nodiscard]] bool same() const { return blocks + only_in_left + only_in_right == 0; }
};

struct CompareOptions {
  bool any_order = false;           ///< sort the blocks of a file that is not in order
  bool ignore_zero_blocks = false;  ///< an all-zero block equals a missing one
  /// Called for each element that differs, by block and then by row; nothing is called for an all-zero block that
  /// the other file does not have.
  std::function<void(const Difference&)> on_difference;
};

/// Shapes: both files have the same n and m; element types may differ.
/// Memory: a few MB; with any_order 16 bytes per block of a file that is not in order.
/// Errors: FormatError (a file is not in order, a block twice, index out of range), IoError, Interrupted.
/// Values: files whose records are the same bytes are the same; their records are not checked further.
Comparison compare_files(const MatrixFile& left, const MatrixFile& right, const CompareOptions& options);

}  // namespace spmm::tools
