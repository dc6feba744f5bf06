// The textbook product: three loops on one core.
#pragma once

#include <cstddef>
#include <span>

#include "tools/dense/dense_multiply.hpp"

namespace spmm::dense {

/// C = A * B, each element summed in order of the inner index in the type's own arithmetic (f32: in float).
/// Shapes: a [rows, inner], b [inner, cols], c [rows, cols], row-major; multiply() checks them.
/// Values: s8 needs inner below 2^17.
void multiply_host_naive(Type type, Shape shape, std::span<const std::byte> a, std::span<const std::byte> b,
                         std::span<std::byte> c);

}  // namespace spmm::dense
