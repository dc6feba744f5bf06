// What a choice is made from, limits and counts, and what it says: all that backends and out_of_core.cpp need to run a
// product. Pure: decide() is called with expected counts before anything is read, and again once pairs are counted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "plan/panels/panels.hpp"
#include "plan/panels/tile_panels.hpp"
#include "spmm/plan.hpp"
#include "spmm/selection.hpp"
#include "spmm/types.hpp"

namespace spmm::plan {

/// Instruction sets of the CPU kernels, those of a machine narrowest first.
enum class Isa : std::uint8_t { portable, avx2, avx512_vnni };

/// Any number of block rows from the first to the last with blocks.
inline constexpr std::uint32_t kAnySpan = 0xFFFF'FFFFu;

struct KernelRow;  // registry.hpp

/// A CUDA device that the product may use.
struct Gpu {
  int number = 0;
  std::string name{};
  std::uint64_t bytes = 0;        ///< what the products of this engine may take together
  bool has_dense_tensor = false;  ///< can run the dense tensor-core kernel
  double arithmetic = 1;          ///< multiprocessors times clock, over those of the measured device (times.cpp)
  double memory = 1;              ///< bandwidth, likewise
  double start_s = 0;             ///< until it can be used; 0: its context exists
};

/// What options and machine allow, and which backend was chosen before.
struct Limits {
  Backend backend = Backend::automatic;  ///< asked for, or chosen before
  bool gpu_failed = false;               ///< a GPU that is there could not be used
  std::string why_backend{};             ///< where it was chosen before
  const KernelRow* kernel = nullptr;     ///< asked for; null = the fastest
  bool force = false;                    ///< no limit on the launches of host-driven
  Selection selection{};                 ///< elements of C that are kept
  RowRange rows{};                       ///< block rows of C, for how much of it a triangle leaves
  unsigned num_threads = 1;
  unsigned num_cores = 1;  ///< more threads than this are not faster
  std::uint64_t host_bytes = 0;
  std::vector<Gpu> gpus{};       ///< that may share the product, the chosen one first; empty: none is usable, or wanted
  std::string why_no_gpu{};      ///< one clause, where gpus is empty
  bool shares_always = false;    ///< all of them do; else only where the product is predicted to end earlier
  bool discards_result = false;  ///< the output is a character device, such as /dev/null
  Isa isa = Isa::portable;

  [[nodiscard]] std::uint32_t num_gpus() const { return static_cast<std::uint32_t>(gpus.size()); }
  /// What each of the devices has at least. Values: there is one.
  [[nodiscard]] std::uint64_t device_bytes() const {
    return std::min_element(gpus.begin(), gpus.end(), [](const Gpu& x, const Gpu& y) { return x.bytes < y.bytes; })
        ->bytes;
  }
  [[nodiscard]] bool has_dense_tensor() const {
    return !gpus.empty() && std::all_of(gpus.begin(), gpus.end(), [](const Gpu& one) { return one.has_dense_tensor; });
  }
};

/// Of a product: expected from the headers, for evenly spread blocks, or exact once pairs are counted.
struct Counts {
  MatrixHeader a{};
  MatrixHeader b{};
  bool exact = false;
  bool sampled = false;  ///< pairs and C blocks are those of a sample of indices
  double num_pairs = 0;
  double num_c_blocks = 0;          ///< C blocks; exact: at most, the sum over rows of min(pairs, nb)
  std::uint64_t a_rows = 0;         ///< block rows of A that hold blocks (exact on the CPU: that have pairs); at most
  std::uint64_t b_rows = 0;         ///< block rows of B that hold blocks, at most
  std::uint32_t a_span = kAnySpan;  ///< block rows from the first to the last with blocks of A, at most
  std::uint32_t b_columns = 0;      ///< block columns of B that hold blocks; 0 = not known
  std::uint32_t c_columns_end = 0;  ///< CUDA: block columns of B up to the last one with a block; 0 = not known
  std::uint32_t max_element = 65'535;  ///< of both operands, at most
  RowPairs row_pairs{};                ///< exact, CUDA: pairs of each run of rows
  TileCounts tiles{};                  ///< exact, CUDA, where a choice wanted them

  [[nodiscard]] std::uint32_t m() const { return a.m; }
  [[nodiscard]] std::uint32_t nb() const { return a.blocks_per_side(); }
  /// Block columns that C may reach: those of B are narrow where a rectangular matrix was padded to a square.
  [[nodiscard]] std::uint32_t c_columns() const { return c_columns_end == 0 ? nb() : c_columns_end; }
  [[nodiscard]] std::uint64_t num_blocks() const { return std::uint64_t{a.num_blocks} + b.num_blocks; }
};

/// Counts of evenly spread blocks, elements up to the largest u16. Values: num_rows = block rows of A among which
/// its blocks are spread; 0 = all.
Counts expected_counts(const MatrixHeader& a, const MatrixHeader& b, std::uint32_t num_rows = 0);

/// Counts of these block rows of the product, where `a` is the header of all of A.
Counts expected_of_rows(MatrixHeader a, const MatrixHeader& b, RowRange rows);

/// The same with a selection: of these rows of a triangle the pairs and C blocks right of the diagonal, of each element
/// row `keep` at most.
Counts expected_of_selection(Counts s, const Selection& selection, RowRange rows);

/// How the operands lie in memory.
enum class Layout : std::uint8_t {
  rows,             ///< both by rows, blocks padded to a side that the row kernels are compiled for
  rows_unpadded,    ///< both by rows, blocks as they are
  b_by_columns,     ///< A by rows, B by columns
  rows_file_order,  ///< both by rows, elements left where they are and found through record numbers
};

/// Why nothing can run; planning says so as data.
struct Refusal {
  enum class Kind : std::uint8_t { none, host_memory, device_memory, device, usage };
  Kind kind = Kind::none;
  std::string what{};  ///< "device memory"
  std::string problem{};
  std::string hint{};
  std::uint64_t need_bytes = 0;  ///< memory: of the smallest way that there is

  [[nodiscard]] bool lacks_memory() const { return kind == Kind::host_memory || kind == Kind::device_memory; }
};

inline Refusal host_memory_refusal(std::uint64_t need_bytes) {
  return {.kind = Refusal::Kind::host_memory, .what = "host memory", .need_bytes = need_bytes};
}

/// Values: kernel = a name of the registry.
struct Choice : Plan {
  double cuda_s = 0;                     ///< predicted with CUDA, where the backends were compared; 0: it does not fit
  double cpu_s = 0;                      ///< the same on the CPU
  Layout operand_layout = Layout::rows;  ///< CUDA, exact
  bool wants_row_counts = false;         ///< exact: panels cannot be cut before pairs are known row by row; count again
  bool wants_tile_counts = false;        ///< exact: tile-tensor may be faster; decide again with its tiles counted
  std::uint64_t panel_bytes = 0;         ///< CPU: output records of a buffer at most
  std::uint64_t num_buffers = 0;         ///< host buffers that hold output on its way to the sink
  std::uint64_t max_tile_stages = 0;     ///< with it: products of tiles that would already take longer
  std::uint64_t max_c_blocks = 0;        ///< CUDA: C blocks of a panel at most; listed panels: pairs
  std::vector<Panel> panels{};           ///< CUDA, exact
  std::uint32_t dense_columns = 0;       ///< dense kernels: block columns of B that are expanded at a time
  std::uint32_t num_planes = 0;          ///< byte planes of the dense operands
  Limits limits{};                       ///< within which it was decided; out of core: those of a range
  Refusal refusal{};

  [[nodiscard]] bool is_refused() const { return refusal.kind != Refusal::Kind::none; }
  [[nodiscard]] bool is_out_of_core() const { return scratch_bytes != 0; }
};

/// The way to run a product: the backend by predicted time, the kernel by rule (rule.hpp). Where nothing fits at once
/// and the counts are expected ones, the product runs out of core; what does not fit then is refused, as data.
/// Values: never throws for lack of memory.
Choice decide(const Counts& s, const Limits& limits);

/// The fastest way that keeps both operands in memory as a whole; refused if there is none.
Choice decide_at_once(const Counts& s, const Limits& limits);

/// Turns a refusal into the exception that it stands for. Errors: OutOfMemory, DeviceError, UsageError.
void throw_if_refused(const Choice& choice);

}  // namespace spmm::plan
