// Places of the blocks of a generated matrix, as regions whose cells are numbered in row-major order.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "spmm/types.hpp"

namespace spmm::tools {

/// A set of cells of an nb x nb grid.
struct Region {
  std::uint64_t capacity = 0;
  /// The cell with that number; a larger number lies later in row-major order. Values: rank below capacity.
  std::function<BlockIndex(std::uint64_t rank)> cell{};
};

enum class PatternKind : std::uint8_t {
  uniform,
  diagonal,
  banded,
  power_law,
  heavy_row,
  heavy_column,
  hub,
  stencil_7,
  stencil_27,
  rmat,
  block_diagonal,
  arrow,
  saddle_point,
};

/// Names of the patterns on the command line ("power-law"), in the order of PatternKind. spmm-gen --help explains them.
const std::vector<std::string>& pattern_names();
const std::string& pattern_name(PatternKind kind);

/// `count` blocks at random cells of a region. The regions of one pattern are disjoint.
struct Part {
  Region region;
  std::uint64_t count = 0;
};

/// What some patterns take in addition to their number of blocks.
struct PatternOptions {
  std::optional<std::uint32_t> bandwidth{};  ///< banded: blocks on each side of the diagonal
  std::optional<std::uint32_t> group{};      ///< block-diagonal: block rows of a group; 64 without
  std::uint64_t seed = 1;                    ///< rmat: its places are drawn
};

/// A pattern of k blocks on a grid of nb x nb. Values: nb at least 1. Errors: UsageError if k blocks do not fit.
/// Memory: uniform, heavy-row, heavy-column and hub: none; rmat: about 16 bytes a block; others: 8 bytes a block row.
std::vector<Part> make_pattern(PatternKind kind, std::uint32_t nb, std::uint64_t k, const PatternOptions& options);

}  // namespace spmm::tools
