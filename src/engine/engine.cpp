// How a product runs: choose, reserve, read, count, decide, multiply, write, verify, publish.
#include <algorithm>
#include <cmath>
#include <list>
#include <optional>
#include <span>
#include <string>

#include "base/text.hpp"
#include "cpu/backend.hpp"
#include "engine/backend_choice.hpp"
#include "engine/impl.hpp"
#include "engine/out_of_core.hpp"
#include "plan/choice.hpp"
#include "plan/out_of_core.hpp"
#include "verify/exact_rows.hpp"
#include "verify/proof.hpp"

namespace spmm {
namespace {

constexpr std::uint64_t kProofShare = 4;  // of the limit, for operands of the proof when the product is done

/// How the result is proven: all of it with verify_full, else the block rows of verify_blocks blocks of A.
std::optional<ProofSettings> proof_settings(const ProductOptions& options, std::uint32_t m, std::uint64_t limit_bytes) {
  if (!options.verify_full && options.verify_blocks == 0) return std::nullopt;
  constexpr std::uint64_t kChosenShare = 8;  // at most, for chosen rows
  const std::uint64_t chosen =
      std::clamp<std::uint64_t>(limit_bytes / kChosenShare / Proof::chosen_bytes(m, options.selection), 1,
                                std::max<std::uint64_t>(1, options.verify_blocks));
  return ProofSettings{.num_blocks = options.verify_full ? 0 : chosen,
                       .seed = options.verify_seed,
                       .key = options.proof_key,
                       .memory_bytes = std::max<std::uint64_t>(1, limit_bytes / kProofShare),
                       .limit_bytes = limit_bytes,
                       .rows = options.rows,
                       .selection = options.selection,
                       .on_notice = options.on_notice};
}

/// Host memory of a proof in addition to the product, and instead of it when it is done.
std::uint64_t resident_bytes(const std::optional<ProofSettings>& proof, const MatrixHeader& a) {
  return proof ? Proof::resident_bytes(a, proof->num_blocks, proof->selection) : 0;
}
std::uint64_t end_bytes(const std::optional<ProofSettings>& proof, const MatrixHeader& a, const MatrixHeader& b) {
  return proof ? Proof::finish_bytes(a, b, proof->num_blocks) + proof->memory_bytes : 0;
}

/// What is expected to run beside a result that stays in memory and a proof, which is set. The result has as much as is
/// expected of the headers, at most three quarters of the limit; more than that it takes only as far as the product
/// leaves memory free. Refused, as data, if the product does not fit or the proof leaves it less than half.
plan::Choice decide_beside(const plan::Counts& expected, plan::Limits limits, bool keeps_result,
                           const ProductOptions& options, std::optional<ProofSettings>& proof) {
  if (keeps_result) {
    constexpr double kTolerance = 1.0625;  // what is expected is for evenly spread blocks
    const double bytes = kTolerance *
                         plan::expected_of_selection(expected, options.selection, options.rows).num_c_blocks *
                         static_cast<double>(output_record_bytes(expected.m()));
    const std::uint64_t most = limits.host_bytes - limits.host_bytes / 4;
    limits.host_bytes -= bytes < static_cast<double>(most) ? static_cast<std::uint64_t>(bytes) : most;
  }
  proof = proof_settings(options, expected.m(), limits.host_bytes);
  const std::uint64_t resident = resident_bytes(proof, expected.a);
  if (resident <= limits.host_bytes / 2 && resident + end_bytes(proof, expected.a, expected.b) <= limits.host_bytes) {
    limits.host_bytes -= resident;
    return plan::decide(expected, limits);
  }
  plan::Choice refused;
  refused.refusal = plan::host_memory_refusal(0);
  refused.refusal.what = options.verify_full ? "ProductOptions::verify_full" : "ProductOptions::verify_blocks";
  return refused;
}

/// As decide_beside(). Errors: what a refusal stands for; for lack of host memory it names the least limit with which
/// there is none.
plan::Choice expect(const plan::Counts& expected, const plan::Limits& limits, bool keeps_result,
                    const ProductOptions& options, std::optional<ProofSettings>& proof) {
  constexpr auto kLacksHost = plan::Refusal::Kind::host_memory;
  plan::Choice choice = decide_beside(expected, limits, keeps_result, options, proof);
  if (choice.refusal.kind == kLacksHost) {
    plan::Limits other = limits;
    choice.refusal.need_bytes = plan::least_that_fits(limits.host_bytes, [&](std::uint64_t bytes) {
      other.host_bytes = bytes;
      return decide_beside(expected, other, keeps_result, options, proof).refusal.kind != kLacksHost;
    });
    choice.host_limit_bytes = limits.host_bytes;
  }
  plan::throw_if_refused(choice);
  return choice;
}

/// Seconds of a proof of a result without saturated elements. Measured: src/HISTORY.md.
double proof_seconds(const plan::Counts& expected, const Plan& plan, const Selection& selection) {
  constexpr double kSecondsPerPair = 50e-9;          // of rows that are computed again
  constexpr double kSecondsPerMultiplyAdd = 0.1e-9;  // the same
  const double multiply_adds = std::pow(expected.m(), 3);
  if (!selection.is_all()) {
    return expected.num_pairs * (kSecondsPerPair + kSecondsPerMultiplyAdd * multiply_adds) / plan.num_threads;
  }
  constexpr double kSecondsPerElement = 0.4e-9;  // of C
  constexpr double kSecondsPerBlock = 90e-9;     // of an operand
  const double elements = plan.expected_output_blocks * static_cast<double>(expected.m()) * expected.m();
  const auto blocks = static_cast<double>(expected.num_blocks());
  return (elements * kSecondsPerElement + blocks * kSecondsPerBlock) / plan.num_threads;
}

}  // namespace

ProductStats multiply_at_once(const Inputs& inputs, Output& output, plan::Choice& choice, const cuda::DeviceRun& run) {
  cuda::DeviceRun decided = run;
  decided.num_threads = choice.num_threads;
  if (choice.backend == Backend::cpu) return cpu::multiply(inputs.a, inputs.b, output, choice, decided);
  return cuda::multiply(inputs.a, inputs.b, output, choice, decided);
}

/// One product on one backend, from the choice to the proof of the finished output. Without a sink: its plan.
void Engine::Impl::run_product(const Inputs& inputs, Sink* sink, Output* output, const ProductOptions& options,
                               const std::string& why_not_cuda, MemoryShare& share, ProductRecord& record) {
  Report& report = record.report;
  cuda::DeviceRun run = run_of(options, record.clock, &share);
  run.arrays = record.arrays;

  // Choose the backend: by headers, and by sampled indices if the options leave it open. Its devices start.
  std::list<MemoryShare> more_shares;
  plan::Limits limits;
  {
    const auto timing = run.clock.scope(Stage::open);
    limits = devices_.choose(inputs, options, record, why_not_cuda, more_shares, run);
    record.runs_on_cpu = run.device == nullptr;
  }

  // Expect the kernel and the memory, and reserve that.
  const bool keeps_result = sink != nullptr && sink->keeps_records();
  std::optional<ProofSettings> proof_settings;
  plan::Choice choice;
  if (sink == nullptr) {
    const plan::Counts expected = expected_counts(inputs, limits, workers_, Expecting::sample);
    choice = expect(expected, limits, keeps_result, options, proof_settings);
    report.plan = choice;
    if (!options.verify_full) return;
    report.plan.safe_limit_bytes = kProofShare * ExactRows::sure_memory_bytes(inputs, choice.host_limit_bytes, run);
    report.plan.proof_s = proof_seconds(expected, choice, options.selection);
    return;
  }
  {
    const auto timing = run.clock.scope(Stage::budget);
    const plan::Counts expected = expected_of(inputs);
    choice = expect(expected, limits, keeps_result, options, proof_settings);
    reserve_memory(choice, run, resident_bytes(proof_settings, expected.a),
                   end_bytes(proof_settings, expected.a, expected.b), keeps_result);
  }
  std::optional<Proof> proof;
  std::optional<ResultProof> result_proof;
  if (proof_settings) {
    const auto timing = run.clock.scope(Stage::verify);
    proof.emplace(inputs.a, inputs.b, *proof_settings, run);
    result_proof.emplace(*proof, *sink, inputs.a.header(), run);
    output->show_to(
        [&](std::uint64_t first, std::span<const std::byte> records) { result_proof->look(first, records); });
  }

  // Read, count, decide exactly, multiply, write: at once, or range by range.
  output->expect(inputs.m(), 0);
  ProductStats stats;
  if (!choice.is_out_of_core()) {
    stats = multiply_at_once(inputs, *output, choice, run);
  } else {
    if (run.arrays != nullptr) inputs.a.read(0, 1, nullptr);  // refuses
    run.more_devices.clear();
    stats = multiply_out_of_core(inputs, *output, run, record.scratch_folders, choice);
  }
  inputs.a.check_unchanged();
  inputs.b.check_unchanged();
  fill_report(inputs, stats, choice, report);
  {
    const auto timing = run.clock.scope(Stage::write);
    sink->finish(report.c);
  }

  // Verify before the result becomes visible.
  if (result_proof) {
    const auto timing = run.clock.scope(Stage::verify);
    const ProofResult result = result_proof->check(report.c_blocks);
    if (!options.verify_full) {
      report.verified_blocks = result.num_blocks;
    } else {
      report.proof = {.is_proven = true,
                      .key = options.proof_key,
                      .num_rows = result.num_rows,
                      .num_saturated = result.num_saturated,
                      .num_exact_rows = result.num_exact};
    }
  }
  run.check_cancelled();
}

void Engine::Impl::multiply(const Source& a, const Source& b, Sink* sink, const std::string& out,
                            const ProductOptions& given, ProductRecord& record) {
  const Inputs inputs = as_multiplied(a, b, given, run_of(given, record.clock));
  check_shapes(inputs.a, inputs.b);
  ProductOptions options = given;  // to keep as many elements as a row has would take memory for all of them
  if (options.selection.keep >= inputs.a.header().n) options.selection.keep = 0;
  // If a device fails before the first byte is written, the CPU takes its place, unless the options insist on CUDA.
  const bool is_open = devices_.insisted_backend(options) == Backend::automatic;
  for (std::string why_not_cuda;;) {
    MemoryBudget of_caller;
    MemoryShare share(record.brings_memory() ? of_caller : budget_);
    std::optional<Output> output;
    if (sink != nullptr) output.emplace(*sink, &share);
    try {
      run_product(inputs, sink, output ? &*output : nullptr, options, why_not_cuda, share, record);
      break;
    } catch (const std::runtime_error& error) {
      const bool is_of_device =
          dynamic_cast<const DeviceError*>(&error) != nullptr || dynamic_cast<const CudaError*>(&error) != nullptr;
      if (!is_of_device || !is_open || record.runs_on_cpu || (output && output->was_used())) throw;
      why_not_cuda = text("CUDA failed: ", error.what());
    }
  }
  describe_operands(inputs.a.header(), options, record.report.plan);
  record.report.a = a.header();  // of all rows
  if (sink == nullptr) return;
  const auto timing = record.clock.scope(Stage::write);
  check_saturation(options, record.report, *sink, out);
  sink->publish();
}

cuda::DeviceRun Engine::Impl::run_of(const ProductOptions& options, StageClock& clock, MemoryShare* memory) {
  return {{.clock = clock,
           .on_progress = options.on_progress,
           .cancel = options.cancel,
           .num_threads = num_threads({options_, options}, usable_cores()),
           .workers = &workers_,
           .memory = memory,
           .selection = options.selection}};
}

}  // namespace spmm
