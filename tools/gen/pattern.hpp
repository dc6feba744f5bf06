// Where the blocks of a generated matrix may lie, as regions whose cells are numbered in row-major order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "spmm/types.hpp"

namespace spmm::tools {

/// A set of cells of an nb x nb grid.
class Region {
 public:
  virtual ~Region() = default;

  /// Number of cells.
  [[nodiscard]] virtual std::uint64_t capacity() const = 0;

  /// The cell with that number; a larger number lies later in row-major order. Values: rank below capacity().
  [[nodiscard]] virtual BlockIndex cell(std::uint64_t rank) const = 0;
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

/// Names of the patterns on the command line ("power-law"), in the order of PatternKind.
const std::vector<std::string>& pattern_names();
const std::string& pattern_name(PatternKind kind);

/// `count` blocks at random cells of a region. The regions of one pattern are disjoint.
struct Part {
  std::unique_ptr<Region> region;
  std::uint64_t count = 0;
};

/// What some patterns take in addition to their number of blocks.
struct PatternOptions {
  std::optional<std::uint32_t> bandwidth{};  ///< banded: blocks on each side of the diagonal
  std::optional<std::uint32_t> group{};      ///< block-diagonal: block rows of a group; 64 without
  std::uint64_t seed = 1;                    ///< rmat: its places are drawn
};

/// A pattern of k blocks on a grid of nb x nb:
///   uniform       anywhere
///   diagonal      |i - j| = 0
///   banded        |i - j| <= bandwidth; without one the narrowest band that is at most half full
///   power-law     block row r, and block column r, has about 1/r of the first one's blocks, in steps of powers of two
///   heavy-row     half of the blocks (or a full row, if that is less) in block row nb/2, the rest anywhere else
///   heavy-column  the same with block column nb/2
///   hub           a third of the blocks (or a full row, if that is less) in block row nb/2, as many in block column
///                 nb/2 + 1, the rest anywhere else: in a product the two meet in one block, with all their pairs
///   stencil-7     a cubic grid of nodes, each with its 6 neighbours (structured_pattern.hpp, also for those below)
///   stencil-27    a cubic grid of nodes, each with its 26 neighbours
///   rmat          a graph: R-MAT with the parameters of Graph500
///   block-diagonal  full square groups along the diagonal
///   arrow         block row 0, block column 0 and the diagonal
///   saddle-point  [[K, B^T], [B, 0]] with a 7-point stencil K
/// Values: nb at least 1. Errors: UsageError if k blocks do not fit.
std::vector<Part> make_pattern(PatternKind kind, std::uint32_t nb, std::uint64_t k, const PatternOptions& options);

/// Number of places of a pattern that has the same ones for any number of blocks; nothing for power-law, rmat and
/// banded without a bandwidth.
std::optional<std::uint64_t> num_places(PatternKind kind, std::uint32_t nb, const PatternOptions& options);

}  // namespace spmm::tools
