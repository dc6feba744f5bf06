// The row-merge kernel: threads over block rows, pairs ordered by column, SIMD dot products.
#pragma once

#include "base/run/output.hpp"
#include "base/run/run.hpp"
#include "cpu/operands/prepared.hpp"
#include "cpu/simd/isa.hpp"
#include "plan/choice.hpp"
#include "spmm/stream.hpp"

namespace spmm::cpu {

/// See cpu_backend.hpp. Values: the elements of product.b are rewritten where the arithmetic asks for it.
ProductStats multiply_row_merge(Prepared& product, Isa isa, Output& output, const plan::Choice& choice, const Run& run);

}  // namespace spmm::cpu
