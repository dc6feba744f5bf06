// Where the time went: the stages of a run, and what a finished run reports.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "spmm/plan.hpp"
#include "spmm/types.hpp"

namespace spmm {

/// Stages of a run, in the order of the data flow. The names are the timers, the NVTX ranges and the JSON keys.
enum class Stage : std::uint8_t { open, budget, read, h2d, build, count, plan, multiply, compact, d2h, write, verify };

/// The names, indexed by Stage.
inline constexpr std::array<std::string_view, 12> kStageNames = {
    "open", "budget", "read", "h2d", "build", "count", "plan", "multiply", "compact", "d2h", "write", "verify"};

/// The name of one stage.
constexpr std::string_view stage_name(Stage stage) {
  return kStageNames[static_cast<std::size_t>(stage)];
}

/// Totals of one stage.
/// Values: s = seconds during which at least one worker (thread or stream) was in the stage; stages overlap, so the
/// sum over stages may exceed the total. bytes = bytes moved by the stage, 0 if that has no meaning.
struct StageTotals {
  double s = 0;             ///< seconds
  std::uint64_t bytes = 0;  ///< moved
};

/// Called now and then with work done and total work of a stage (read: bytes; multiply: output block rows).
/// Threads: called from several threads, never at the same time for one run; must return quickly.
using ProgressFn = std::function<void(Stage stage, std::uint64_t done, std::uint64_t total)>;

/// The proof of a whole result (ProductOptions::verify_full): every element row of C X = A (B X) holds, X random modulo
/// 2^61 - 1. A wrong row passes with a probability of at most 1 / (2^61 - 1).
struct ProofReport {
  std::uint32_t num_columns = 0;         ///< of X; 0 = nothing was proven
  std::uint64_t key = 0;                 ///< of X
  std::uint64_t num_rows = 0;            ///< element rows
  std::uint64_t num_saturated = 0;       ///< elements that saturate
  std::uint64_t num_exact_rows = 0;      ///< block rows with so many of them that their blocks were summed or bounded
  std::uint64_t num_bounded_blocks = 0;  ///< blocks that lower bounds of whole rows proved to be saturated everywhere
  bool bounded_by_device = false;        ///< a GPU computed these bounds, by other kernels than the product's
  double bounds_s = 0;                   ///< seconds that they took
  std::uint64_t resident_bytes = 0;      ///< that the proof held while the product ran
};

/// What a finished run says about itself.
struct Report {
  MatrixHeader a;                                        ///< shape of A
  MatrixHeader b;                                        ///< shape of B
  MatrixHeader c;                                        ///< shape of C; num_blocks = c_blocks, 2^32 - 1 at most
  std::uint64_t c_blocks = 0;                            ///< blocks written
  std::uint64_t pairs = 0;                               ///< block products
  std::uint64_t saturated_elements = 0;                  ///< of C: their true sums are 2^32 - 1 or larger
  double total_s = 0;                                    ///< whole call
  std::array<StageTotals, kStageNames.size()> stages{};  ///< indexed by Stage
  Plan plan;                                             ///< backend, kernel, why, memory
  std::uint64_t num_panels = 0;                          ///< row panels that were computed
  std::uint64_t peak_host_bytes = 0;                     ///< resident set of the process at its largest
  std::uint64_t peak_device_bytes = 0;                   ///< allocated by the run at its largest; 0 on the CPU
  std::uint64_t verified_blocks = 0;                     ///< blocks recomputed by --verify
  ProofReport proof{};                                   ///< of --verify full
  std::string device;                                    ///< name of the GPU, or of the instruction set on the CPU

  /// Totals of one stage.
  [[nodiscard]] const StageTotals& stage(Stage s) const { return stages[static_cast<std::size_t>(s)]; }

  /// Speed of the whole call in 10^9 pairs per second.
  [[nodiscard]] double gpairs_per_s() const { return total_s > 0 ? static_cast<double>(pairs) * 1e-9 / total_s : 0; }
};

}  // namespace spmm
