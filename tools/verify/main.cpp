// spmm-verify: is a file the product of two others?
#include <algorithm>
#include <array>
#include <cstdint>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>

#include "base/memory/machine_memory.hpp"
#include "base/text.hpp"
#include "cli/exit_codes.hpp"
#include "cli/options/table.hpp"
#include "cli/program.hpp"
#include "cli/self_description.hpp"
#include "cuda/backend.hpp"
#include "report/text.hpp"
#include "spmm/error.hpp"
#include "spmm/plan.hpp"
#include "tools/common/matrix_file.hpp"
#include "tools/spmm/subcommands.hpp"
#include "tools/verify/verify_files.hpp"

namespace {

using namespace spmm;

constexpr std::uint64_t kMaxThreads = 4096;

constexpr const char* kNotes = R"(
Examples:
  spmm-verify a.bin b.bin c.bin
  spmm-verify --rows 0:1000 a.bin b.bin c0.bin
  spmm-verify a.bin b.bin theirs.bin --any-order --allow-zero-blocks

A and B are matrices, C is what any program says is their product. Every element row that A stores or C holds is
checked, saturated at 4294967295, by equations with random numbers modulo 2^61 - 1: a wrong row passes with a probability
of at most 1 in 2.3e18, and a right one always does. What differs is computed exactly and shown. The key of the random
numbers is a new one each time; --verify-seed repeats a run.

Variables where the option is not given: SPMM_BACKEND, SPMM_THREADS, SPMM_MEMORY_LIMIT.
Exit codes: 0 it is the product, 1 it is not, 2 wrong command line, 65 a file breaks the format, 66 a file cannot be
opened, 69 no device for --backend cuda, 71 does not fit the memory or the limit, 74 reading failed, 75 interrupted.
)";

cli::OptionTable make_options() {
  using cli::value;
  cli::OptionTable options("spmm-verify", "Proves that C = A * B, or shows where it is not.\n");
  options.usage("[options] A B C", "spmm verify");
  options.add_options("hidden")("a", "", value())("b", "", value())("c", "", value());
  options.add_options()                                              //
      ("any-order", "the order of the blocks of C does not matter")  //
      ("allow-zero-blocks", "blocks of C may be all zero")           //
      ("rows", "C has these block rows of the product, and no others", value(), "FIRST:END")(
          "backend",
          "where results that saturate nearly everywhere are bounded; auto = where it is expected to be faster",
          value(), "auto|cuda|cpu")                                                    //
      ("verify-seed", "key of the random numbers; default: a new one", value(), "N")   //
      ("threads", "host threads; 0 = every core this process may use", value(), "N")   //
      ("memory-limit", "for buffers; default: most of what is free", value(), "SIZE")  //
      ("q,quiet", "print nothing if C is the product");
  cli::add_common_options(options);
  options.parse_positional({"a", "b", "c"});
  return options;
}

/// Bounds on the first device, which is started when they are wanted; at once where it is insisted on.
/// Errors: DeviceError if it is insisted on and there is none.
class Device {
 public:
  Device(Backend wanted, std::uint64_t limit_bytes) : limit_bytes_(limit_bytes) {
    std::string why_not;
    if (wanted == Backend::cuda && !start(why_not)) {
      throw DeviceError("--backend cuda", why_not, "use --backend cpu, or check nvidia-smi");
    }
    is_usable_ = wanted == Backend::cuda || (wanted == Backend::automatic && cuda::may_start(why_not));
  }

  [[nodiscard]] BoundDevice describe() {
    constexpr double kStartSeconds = 0.35;  // of CUDA and its context
    if (!is_usable_) return {};
    return {.prove = [this](const BoundTask& task, const Run& run) { return prove(task, run); },
            .start_s = context_ == nullptr ? kStartSeconds : 0};
  }

 private:
  bool start(std::string& why_not) {
    context_ = cuda::find_device(-1, why_not);
    return context_ != nullptr;
  }

  bool prove(const BoundTask& task, const Run& run) {
    try {
      std::string why_not;
      if (context_ == nullptr && !start(why_not)) return false;
      const std::uint64_t most = cuda::describe(*context_).memory_bytes / 100 * 90;
      const BoundProver prover = cuda::bounds_on(*context_, std::min(most, limit_bytes_), nullptr);
      return prover && prover(task, run);
    } catch (const Error&) {
      throw;
    } catch (const std::runtime_error&) {  // of a CUDA call: the host takes over
      return false;
    }
  }

  std::uint64_t limit_bytes_;
  bool is_usable_ = false;
  std::shared_ptr<cuda::DeviceContext> context_;
};

int run(const cli::ParsedOptions& parsed) {
  const std::string a = cli::required_positional(parsed, "a", "left operand (A)");
  const std::string b = cli::required_positional(parsed, "b", "right operand (B)");
  const std::string c = cli::required_positional(parsed, "c", "product (C)");
  const auto threads = static_cast<unsigned>(cli::option_count(parsed, "threads", 0, kMaxThreads).value_or(0));
  const auto seed = cli::option_count(parsed, "verify-seed", 1);
  constexpr std::array kBackends = {Backend::automatic, Backend::cuda, Backend::cpu};
  const Backend backend = kBackends[cli::option_choice(parsed, "backend", {"auto", "cuda", "cpu"})];
  const std::uint64_t memory_limit =
      cli::option_bytes(parsed, "memory-limit").value_or(available_memory_bytes() / 100 * 90);
  const auto rows = cli::option_text(parsed, "rows");
  Device device(backend, cli::option_bytes(parsed, "memory-limit").value_or(~std::uint64_t{0}));
  const tools::VerifyFilesOptions options{.any_order = cli::option_flag(parsed, "any-order"),
                                          .allow_zero_blocks = cli::option_flag(parsed, "allow-zero-blocks"),
                                          .rows = rows ? cli::parse_rows(rows->value, rows->where) : RowRange{},
                                          .key = seed ? *seed : fresh_proof_key(),
                                          .memory_limit_bytes = memory_limit,
                                          .device = device.describe(),
                                          .way = backend == Backend::cuda ? BoundWay::panels : BoundWay::automatic};
  const bool quiet = cli::option_flag(parsed, "quiet");
  StageClock clock;
  const ProgressFn no_progress;
  const Run run{.clock = clock,
                .on_progress = no_progress,
                .cancel = &cli::cancel_flag(),
                .num_threads = threads != 0 ? threads : usable_cores()};
  const tools::VerifiedFiles verified = tools::verify_files(a, b, c, options, run);
  const ProofResult& result = verified.result;
  if (result.num_wrong != 0) {
    std::cout << text("different: ", result.differences, " (key ", options.key, ")\n");
    return cli::kNegative;
  }
  if (!quiet) {
    std::cout << text(
        "proven: ", verified.num_blocks, " blocks, ", result.num_rows, " element rows, ", result.num_columns,
        result.num_columns == 1 ? " random column" : " random columns", ", key ", options.key,
        verified.num_saturated > 0 ? ", " + cli::saturation_text(verified.num_saturated) : "",
        result.num_exact > 0 ? text(", ", result.num_exact, " block rows by exact sums") : "",
        result.num_bounded > 0
            ? text(", ", result.num_bounded, " blocks by bounds on the ", result.bounded_by_device ? "device" : "host")
            : "",
        "\n");
  }
  return cli::kOk;
}

}  // namespace

int spmm::tools::verify_main(int argc, char** argv) {
  return cli::run_program({.name = "spmm-verify", .options = make_options, .notes = kNotes}, argc, argv, run);
}
