// The proof of a product: memory for it, and what plan and report say of it.
#include "engine/product/proven.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "spmm/error.hpp"

namespace spmm {
namespace {

bool proves(const ProductOptions& product) {
  return product.verify_full || product.verify_blocks != 0;
}

constexpr std::uint64_t kProofShare = 4;  // of the limit, for operands when the product is done

/// Blocks of A whose block rows are proven, as ProofSettings has them: as many as are wanted, if what the proof holds
/// for them is at most an eighth of the limit.
std::uint64_t chosen_blocks(const ProductOptions& product, const plan::Statistics& expected, std::uint64_t limit) {
  if (product.verify_full) return 0;
  constexpr std::uint64_t kShare = 8;
  return std::clamp<std::uint64_t>(limit / kShare / Proof::chosen_bytes(expected.m()), 1, product.verify_blocks);
}

/// Seconds of a proof of a result with c_blocks blocks and no saturated elements. Measured: src/HISTORY.md.
double proof_seconds(const plan::Statistics& expected, double c_blocks, unsigned num_threads) {
  constexpr double kSecondsPerElement = 0.4e-9;  // of C
  constexpr double kSecondsPerBlock = 90e-9;     // of an operand
  const double elements = c_blocks * static_cast<double>(expected.m()) * expected.m();
  const auto blocks = static_cast<double>(expected.num_blocks());
  return (elements * kSecondsPerElement + blocks * kSecondsPerBlock) / num_threads;
}

}  // namespace

std::uint64_t leave_to_proof(const ProductOptions& product, const plan::Statistics& expected, plan::Limits& limits) {
  if (!proves(product)) return 0;
  const std::uint64_t limit = limits.host_bytes;
  const std::uint64_t num_blocks = chosen_blocks(product, expected, limit);
  const std::uint64_t resident = Proof::resident_bytes(expected.a, num_blocks);
  const std::uint64_t at_end = resident + Proof::finish_bytes(expected.a, expected.b, num_blocks) + limit / kProofShare;
  if (resident > limit / 2 || at_end > limit) {
    throw OutOfMemory(
        product.verify_full ? "ProductOptions::verify_full" : "ProductOptions::verify_blocks",
        text("the proof needs ", human_bytes(resident), " in addition to the product, and ", human_bytes(at_end),
             " at its end, the limit leaves ", human_bytes(limit)),
        "raise EngineOptions::memory_limit_bytes, or multiply without a proof and use spmm-verify on the result");
  }
  limits.host_bytes -= resident;
  return resident;
}

ProofSettings proof_settings(const ProductOptions& product, const plan::Statistics& expected,
                             const plan::Limits& limits) {
  if (!proves(product)) return {};
  return {.num_blocks = chosen_blocks(product, expected, limits.host_bytes),
          .seed = product.verify_seed,
          .key = product.proof_key,
          .memory_bytes = std::max<std::uint64_t>(1, limits.host_bytes / kProofShare),
          .on_notice = product.on_notice};
}

std::uint64_t proof_end_bytes(const ProofSettings& settings, const plan::Statistics& expected) {
  return Proof::finish_bytes(expected.a, expected.b, settings.num_blocks) + settings.memory_bytes;
}

void report_proof(const ProofResult& result, const ProofSettings& settings, const ProductOptions& product,
                  std::uint64_t resident_bytes, Report& report) {
  if (!product.verify_full) {
    report.verified_blocks = result.num_blocks;
    return;
  }
  report.proof = {.is_proven = true,
                  .key = settings.key,
                  .num_rows = result.num_rows,
                  .num_saturated = result.num_saturated,
                  .num_exact_rows = result.num_exact,
                  .resident_bytes = resident_bytes};
}

void add_proof(const plan::Statistics& expected, std::uint64_t bytes, Plan& plan) {
  plan.proof_bytes = bytes;
  plan.proof_s = proof_seconds(expected, plan.expected_output_blocks, plan.num_threads);
}

}  // namespace spmm
