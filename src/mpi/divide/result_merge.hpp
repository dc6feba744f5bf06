// Adds up partial products. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace spmm::mpi {

/// The sum of partial products: blocks that several of them have are added, saturating, so that the order does not
/// matter; a block is zero nowhere, for no part has a zero block and nothing cancels.
/// Shapes: parts of packed result records of side m, each sorted by (i, j) without repetition; so is the result.
std::vector<std::byte> sum_of_results(std::span<const std::span<const std::byte>> parts, std::uint32_t m);

}  // namespace spmm::mpi
