// --verify: one product with a proof of its result, or of some rows of it.
#pragma once

#include <cstdint>

#include "base/run/run.hpp"
#include "engine/product/operands.hpp"
#include "engine/memory/output.hpp"
#include "plan/inputs/statistics.hpp"
#include "spmm/options.hpp"
#include "spmm/plan.hpp"
#include "spmm/report.hpp"

namespace spmm {

/// multiply_product(), and a proof of what the sink gets: all of it with product.verify_full, else of the block rows of
/// product.verify_blocks blocks of A. Fills report.proof or report.verified_blocks, too.
/// Errors: VerifyError that says what differs; every other class of error.hpp.
void prove_product(const ProductOperands& operands, Output& sink, plan::Limits limits, const ProductOptions& product,
                   Run run, Report& report);

/// Reserves memory for a proof in addition to the product: takes it from the limits and returns its bytes; 0 without a
/// proof. Errors: OutOfMemory where less than half would be left to the product, or the proof cannot end within the
/// limit.
std::uint64_t leave_to_proof(const ProductOptions& product, const plan::Statistics& expected, plan::Limits& limits);

/// What a plan says about the proof. Values: bytes = of leave_to_proof().
void add_proof(const plan::Statistics& expected, std::uint64_t bytes, Plan& plan);

}  // namespace spmm
