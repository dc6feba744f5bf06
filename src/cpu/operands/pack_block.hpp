// Copies one block of a record into the layout of the kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/simd/isa.hpp"

namespace spmm::cpu {

/// Shapes: raw [m, m] u16, unaligned; out shape.a_elements(). Returns the bits that occur in any element.
using PackBlock = std::uint32_t (*)(const PackedShape& shape, const std::byte* raw, std::uint16_t* out);

PackBlock choose_pack_a(const PackedShape& shape);
PackBlock choose_pack_b(const PackedShape& shape);

}  // namespace spmm::cpu
