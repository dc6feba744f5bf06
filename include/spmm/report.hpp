// Where the time went: the stages of a run, what a finished run reports, and its trace by thread and device stream.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "spmm/element_types.hpp"
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

/// Called with one sentence before a step that takes more than a second and that no plan predicts.
using NoticeFn = std::function<void(const std::string& notice)>;

/// The proof of a whole result (ProductOptions::verify_full): C X = A (B X) holds in every element row without
/// saturated elements, X random modulo p = 2^61 - 1; rows with some were computed again. A wrong row passes with a
/// probability of at most 3 / p, if proof_key was 0.
struct ProofReport {
  bool is_proven = false;            ///< false: nothing was to be proven
  std::uint64_t key = 0;             ///< of X, as given; 0 = random numbers of the system
  std::uint64_t num_rows = 0;        ///< element rows that were proven
  std::uint64_t num_saturated = 0;   ///< elements that saturate
  std::uint64_t num_exact_rows = 0;  ///< block rows in which they are, and that were computed again
};

/// What a finished run says about itself.
struct Report {
  MatrixHeader a;                                        ///< shape of A
  MatrixHeader b;                                        ///< shape of B
  MatrixHeader c;                                        ///< shape of C; num_blocks = c_blocks, 2^32 - 1 at most
  ElementType element_type = ElementType::u16;           ///< of A and B
  std::uint64_t c_blocks = 0;                            ///< blocks written
  std::uint64_t pairs = 0;                               ///< block products
  std::uint64_t saturated_elements = 0;                  ///< kept ones of C: their true sums are 2^32 - 1 or larger
  std::uint64_t dropped_elements = 0;                    ///< not zero, but not kept by no_diagonal, at_least or keep
  bool may_overflow = false;                             ///< of C of i64: its operands do not exclude a sum beyond 2^63
  double total_s = 0;                                    ///< whole call
  std::array<StageTotals, kStageNames.size()> stages{};  ///< indexed by Stage
  Plan plan;                                             ///< backend, kernel, why, memory
  std::uint64_t num_panels = 0;                          ///< row panels that were computed
  std::uint64_t peak_host_bytes = 0;                     ///< resident set of the process at its largest
  std::uint64_t peak_device_bytes = 0;                   ///< allocated by the run at its largest; 0 on the CPU
  std::uint64_t verified_blocks = 0;                     ///< in the block rows that --verify N has proven
  ProofReport proof{};                                   ///< of --verify full
  std::string device;                                    ///< name of the GPU, or of the instruction set on the CPU

  /// Totals of one stage.
  [[nodiscard]] const StageTotals& stage(Stage s) const { return stages[static_cast<std::size_t>(s)]; }
};

/// What an interval worked on, intervals within it left out, which have their own; 0 or kNoPanel if that has no
/// meaning or is not known.
struct StageWork {
  /// No row panel.
  static constexpr std::uint64_t kNoPanel = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t bytes = 0;         ///< moved
  std::uint64_t pairs = 0;         ///< block products
  std::uint64_t panel = kNoPanel;  ///< row panel, or unit of work of the CPU, in result order
};

/// One interval. Values: times in nanoseconds since the product began.
struct TraceEvent {
  std::string_view name{};    ///< of a stage
  std::int64_t begin_ns = 0;  ///< since the product began
  std::int64_t end_ns = 0;    ///< the same
  StageWork work{};           ///< of several intervals: sums, and the first panel
  std::uint32_t num = 1;      ///< neighbouring short intervals of one name are one event
  std::uint32_t depth = 0;    ///< number of events of the track that contain it
};

/// What one thread or one stream did. Values: events in the order of their beginnings, an event before those that it
/// contains; two events are apart, or one contains the other.
struct TraceTrack {
  int device = -1;                   ///< CUDA device of a stream; -1: a thread of the host
  std::string owner{};               ///< name of the device
  std::string name{};                ///< "main", "worker 1", "writer 1", "stream 2"
  std::vector<TraceEvent> events{};  ///< by their beginnings
};

/// One product. Values: the first track is that of the thread that called multiply().
struct Trace {
  std::int64_t end_ns = 0;           ///< when the product was done
  std::vector<TraceTrack> tracks{};  ///< threads of the host, then streams
};

}  // namespace spmm
