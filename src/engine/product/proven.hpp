// --verify: the proof of a result, or of some rows of it.
#pragma once

#include <cstdint>

#include "plan/statistics.hpp"
#include "spmm/options.hpp"
#include "spmm/plan.hpp"
#include "spmm/report.hpp"
#include "verify/proof.hpp"

namespace spmm {

/// How a product with these options is proven within limits that hold the proof, too: all of its result with
/// product.verify_full, else the block rows of product.verify_blocks blocks of A. memory_bytes = 0: not at all.
ProofSettings proof_settings(const ProductOptions& product, const plan::Statistics& expected,
                             const plan::Limits& limits);

/// Host memory that the end of a proof takes instead of the product.
std::uint64_t proof_end_bytes(const ProofSettings& settings, const plan::Statistics& expected);

/// Reserves memory for a proof in addition to the product: takes it from the limits and returns its bytes; 0 without a
/// proof. Errors: OutOfMemory where less than half would be left to the product, or the proof cannot end within the
/// limit.
std::uint64_t leave_to_proof(const ProductOptions& product, const plan::Statistics& expected, plan::Limits& limits);

/// Fills report.proof or report.verified_blocks. Values: resident_bytes = of leave_to_proof().
void report_proof(const ProofResult& result, const ProofSettings& settings, const ProductOptions& product,
                  std::uint64_t resident_bytes, Report& report);

/// What a plan says about the proof. Values: bytes = of leave_to_proof().
void add_proof(const plan::Statistics& expected, std::uint64_t bytes, Plan& plan);

}  // namespace spmm
