// A product and its proof: memory for both, and what the report says of it.
#include "engine/product/proven.hpp"

#include <optional>

#include "base/text.hpp"
#include "cuda/backend.hpp"
#include "engine/product/product.hpp"
#include "engine/product/releasing_sink.hpp"
#include "spmm/error.hpp"
#include "verify/proof.hpp"
#include "verify/proof_sink.hpp"

namespace spmm {
namespace {

constexpr std::uint64_t kProofShare = 4;  // of the limit, for what a proof holds for a while

/// The proof of a product with these options on this machine. Memory that is left for a while: a part of the limit.
/// The device that computed the product can serve the proof, too, once it is done.
ProofSettings proof_settings(const ProductOptions& product, const plan::Limits& limits, const Run& run) {
  ProofSettings settings{.key = product.proof_key != 0 ? product.proof_key : fresh_proof_key(),
                         .memory_bytes = limits.host_bytes / kProofShare};
  if (run.device != nullptr && limits.device) {
    settings.device.prove = cuda::bounds_on(*run.device, limits.device->bytes, run.memory);
  }
  return settings;
}

/// Processor seconds of a proof with one column, for so many blocks of C. Measured: src/HISTORY.md.
double proof_seconds(const plan::Statistics& expected, double c_blocks, unsigned num_threads) {
  constexpr double kSecondsPerElement = 0.4e-9;  // of C
  constexpr double kSecondsPerBlock = 90e-9;     // of an operand
  const double elements = c_blocks * static_cast<double>(expected.m()) * expected.m();
  const auto blocks = static_cast<double>(expected.num_blocks());
  return (elements * kSecondsPerElement + blocks * kSecondsPerBlock) / num_threads;
}

}  // namespace

std::uint64_t leave_to_proof(const plan::Statistics& expected, std::uint32_t columns, plan::Limits& limits) {
  constexpr std::uint64_t kShare = 8;  // of the limit, for those places
  const std::uint64_t limit = limits.host_bytes;
  const std::uint64_t resident =
      Proof::resident_bytes(expected.a, expected.b, columns, limit) + (columns > 1 ? limit / kShare : 0);
  if (resident > limit / 2) {
    throw OutOfMemory(
        "ProductOptions::verify_full",
        text("the proof needs ", human_bytes(resident), " in addition to the product, the limit is ",
             human_bytes(limit)),
        "raise EngineOptions::memory_limit_bytes, or multiply without ProductOptions::verify_full and use spmm-verify "
        "on the result");
  }
  limits.host_bytes -= resident;
  return resident;
}

void prove_product(const ProductOperands& operands, Sink& sink, plan::Limits limits, const ProductOptions& product,
                   Run run, Report& report) {
  const Source& a = operands.inputs().a;
  const Source& b = operands.inputs().b;
  const plan::Statistics& expected = operands.expected();
  plan::Limits with_one_column = limits;
  leave_to_proof(expected, 1, with_one_column);
  run.extra_bytes = Proof::resident_bytes(expected.a, expected.b, kMaxProofColumns, limits.host_bytes);
  reserve_product(operands, with_one_column, run,
                  Proof::passing_bytes(expected.a, expected.b, limits.host_bytes / kProofShare, run.num_threads));
  const ProofSettings settings = proof_settings(product, limits, run);
  std::optional<Proof> proof;
  {
    const auto timing = run.clock.scope(Stage::verify);
    proof.emplace(a, b, settings, run);
  }
  run.extra_bytes = leave_to_proof(expected, proof->num_columns(), limits);
  ProofSink proving(sink, *proof, expected.a, run);
  ReleasingSink releasing(proving);
  multiply_product(operands, releasing, limits, plan_product(expected, limits), run, report);
  const auto timing = run.clock.scope(Stage::verify);
  const ProofResult result = proving.check(report.c_blocks, run);
  report.proof = {.num_columns = result.num_columns,
                  .key = settings.key,
                  .num_rows = result.num_rows,
                  .num_saturated = result.num_saturated,
                  .num_exact_rows = result.num_exact,
                  .num_bounded_blocks = result.num_bounded,
                  .bounded_by_device = result.bounded_by_device,
                  .bounds_s = result.bounds_s,
                  .resident_bytes = run.extra_bytes};
}

void add_proof(const plan::Statistics& expected, std::uint64_t bytes, Plan& plan) {
  plan.proof_columns = kMaxProofColumns;
  plan.proof_bytes = bytes;
  plan.proof_s = proof_seconds(expected, plan.expected_output_blocks, plan.num_threads);
}

}  // namespace spmm
