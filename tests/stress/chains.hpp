// Random products of arrays of all types of elements, of u16 in given blocks alone.
#pragma once

#include <cstdint>
#include <string>

#include "spmm/element_types.hpp"
#include "spmm/engine.hpp"
#include "spmm/options.hpp"

namespace spmm::test {

/// The type of the elements of the product with a seed.
ElementType chain_type(std::uint64_t seed);

/// Multiplies the operands of a seed, some rows of them, or onto given blocks, and compares bits with three loops.
/// Returns what is wrong, or "". Values: in_device_memory = arrays lie there. Errors: as Engine::multiply().
std::string problem_of_chains(Engine& engine, std::uint64_t seed, ProductOptions options, bool in_device_memory);

}  // namespace spmm::test
