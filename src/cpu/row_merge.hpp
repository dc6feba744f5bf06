// The row-merge kernel: threads over block rows, pairs ordered by column, SIMD dot products.
#pragma once

#include <cstdint>

#include "spmm/plan.hpp"
#include "spmm/run.hpp"
#include "spmm/stream.hpp"

namespace spmm::cpu {

/// See cpu_backend.hpp.
ProductStats multiply_row_merge(const Source& a, const Source& b, Sink& sink, const Plan& plan,
                                const RunContext& context);
std::uint64_t row_merge_bytes(const MatrixHeader& a, const MatrixHeader& b, const Plan& plan);

}  // namespace spmm::cpu
