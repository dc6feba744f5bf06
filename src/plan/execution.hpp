// A decision: everything that backends and out_of_core.cpp need to run a product. They decide nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plan/statistics.hpp"
#include "spmm/plan.hpp"

namespace spmm::plan {

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

  friend bool operator==(const Refusal&, const Refusal&) = default;

  [[nodiscard]] bool lacks_memory() const { return kind == Kind::host_memory || kind == Kind::device_memory; }
};

inline Refusal host_memory_refusal(std::uint64_t need_bytes) {
  return {.kind = Refusal::Kind::host_memory, .what = "host memory", .need_bytes = need_bytes};
}

struct Execution : Plan {
  KernelId id{};
  bool is_named = false;  ///< the kernel was asked for
  Layout operand_layout = Layout::rows;
  bool wants_row_counts = false;      ///< exact: panels cannot be cut before pairs are known row by row; count again
  bool wants_tile_counts = false;     ///< exact: tile-tensor may be faster; decide again with its tiles counted
  std::uint64_t panel_bytes = 0;      ///< output records of one panel at most (GPU: on the device; CPU: per buffer)
  std::uint64_t num_buffers = 0;      ///< host buffers that hold output on its way to the sink
  std::uint64_t max_tile_stages = 0;  ///< with it: products of tiles that would already take longer
  std::uint64_t max_c_blocks = 0;     ///< CUDA: C blocks of a panel at most; listed panels: pairs
  std::vector<Panel> panels{};        ///< CUDA, exact
  std::uint32_t dense_columns = 0;    ///< dense kernels: block columns of B that are expanded at a time
  std::uint32_t num_planes = 0;       ///< byte planes of the dense operands
  Limits range_limits{};              ///< out of core: what is left to the product of a range
  Refusal refusal{};

  friend bool operator==(const Execution&, const Execution&) = default;

  [[nodiscard]] bool is_refused() const { return refusal.kind != Refusal::Kind::none; }
  [[nodiscard]] bool is_out_of_core() const { return scratch_bytes != 0; }
};

/// Turns a refusal into the exception that it stands for. Errors: OutOfMemory, DeviceError, UsageError.
void throw_if_refused(const Execution& execution);

/// The exact decision, which a backend asks for when it has counted.
using Decide = std::function<Execution(const Statistics&)>;

}  // namespace spmm::plan
