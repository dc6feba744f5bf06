// --verify full: one product with a proof of its result.
#pragma once

#include <cstdint>

#include "base/run/run.hpp"
#include "engine/product/operands.hpp"
#include "plan/inputs/statistics.hpp"
#include "spmm/options.hpp"
#include "spmm/plan.hpp"
#include "spmm/report.hpp"
#include "spmm/stream.hpp"
#include "verify/rows/state.hpp"

namespace spmm {

/// multiply_product(), and a proof of what the sink gets. Fills report.proof, too.
/// Errors: VerifyError that says what differs; every other class of error.hpp.
void prove_product(const ProductOperands& operands, Sink& sink, plan::Limits limits, const ProductOptions& product,
                   Run run, Report& report);

/// Takes from the limits what a proof with so many columns holds in addition to the product; returns how much that is.
/// Errors: OutOfMemory where less than half would be left to the product.
std::uint64_t leave_to_proof(const plan::Statistics& expected, std::uint32_t columns, plan::Limits& limits);

/// What a plan says about the proof. Values: bytes = of leave_to_proof(), with all columns.
void add_proof(const plan::Statistics& expected, std::uint64_t bytes, Plan& plan);

}  // namespace spmm
