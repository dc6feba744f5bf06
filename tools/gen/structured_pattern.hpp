// Regions of matrices as applications have them: stencils, graphs, dense groups, arrows, saddle points.
#pragma once

#include <cstdint>
#include <memory>

#include "tools/gen/pattern.hpp"

namespace spmm::tools {

/// Nodes of a cubic grid of side ceil(cbrt(nb)), numbered line by line, the last plane not always full; a block for
/// each node and each of its neighbours. Values: points 7 or 27. Memory: 8 bytes a block row; this and all below.
std::unique_ptr<Region> make_stencil(std::uint64_t nb, std::uint32_t points);

/// Full square groups of `group` block rows along the diagonal, the last one smaller where nb is no multiple.
std::unique_ptr<Region> make_block_diagonal(std::uint64_t nb, std::uint32_t group);

/// Block row 0, block column 0 and the diagonal.
std::unique_ptr<Region> make_arrow(std::uint64_t nb);

/// [[K, B^T], [B, 0]]: K is a 7-point stencil over the first 3/4 of the block rows; row p of B has blocks in columns
/// 3p - 2 to 3p + 5, as far as K has them.
std::unique_ptr<Region> make_saddle_point(std::uint64_t nb);

/// At least k places drawn as a recursive matrix with the parameters of Graph500 (0.57, 0.19, 0.19, 0.05), each drawn
/// place once, numbers not permuted. Nothing if k places are not found within 64 draws for each.
/// Memory: about 16 bytes a block. Source: Chakrabarti, Zhan, Faloutsos, R-MAT (2004).
std::unique_ptr<Region> make_rmat(std::uint64_t nb, std::uint64_t k, std::uint64_t seed);

}  // namespace spmm::tools
