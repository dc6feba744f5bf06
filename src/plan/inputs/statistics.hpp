// What decisions are made from: statistics of the operands and limits of the machine and the user. Plain data.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/inputs/machine.hpp"
#include "plan/panels/panels.hpp"
#include "plan/panels/tile_panels.hpp"
#include "spmm/plan.hpp"
#include "spmm/types.hpp"

namespace spmm::plan {

/// The kernels; registry.hpp has a row for each.
enum class KernelId : std::uint8_t {
  rows,  ///< per panel pair_list or row_spread, by density
  row_spread,
  pair_list,
  small_blocks,
  row_rank,
  dense_tensor,
  tile_tensor,
  dense_tiled,
  two_pointer,
  binary_search,
  host_driven,
  row_merge,
  reference,
};

/// Of a product: expected from the headers, for evenly spread blocks, or exact once pairs are counted.
struct Statistics {
  MatrixHeader a{};
  MatrixHeader b{};
  bool exact = false;
  bool sampled = false;  ///< pairs and C blocks are those of a sample of indices
  double num_pairs = 0;
  double num_c_blocks = 0;      ///< C blocks; exact: at most, the sum over rows of min(pairs, nb)
  std::uint64_t a_rows = 0;     ///< block rows of A that hold blocks (exact on the CPU: that have pairs); at most
  std::uint64_t b_rows = 0;     ///< block rows of B that hold blocks, at most
  std::uint32_t b_columns = 0;  ///< block columns of B that hold blocks; 0 = not known
  std::uint32_t c_columns_end =
      0;  ///< CUDA: block columns of B up to the last such; expected: from a sample; 0 = not known
  std::uint32_t max_element = 65'535;  ///< of both operands, at most
  RowPairs row_pairs{};                ///< exact, CUDA: pairs of each run of rows
  TileCounts tiles{};                  ///< exact, CUDA, where an execution wanted them

  [[nodiscard]] std::uint32_t m() const { return a.m; }
  [[nodiscard]] std::uint32_t nb() const { return a.blocks_per_side(); }
  /// Block columns that C may reach: those of B are narrow where a rectangular matrix was padded to a square.
  [[nodiscard]] std::uint32_t c_columns() const { return c_columns_end == 0 ? nb() : c_columns_end; }
  [[nodiscard]] std::uint64_t num_blocks() const { return std::uint64_t{a.num_blocks} + b.num_blocks; }
};

/// Statistics of evenly spread blocks, elements up to the largest u16. Values: num_rows = block rows of A among which
/// its blocks are spread; 0 = all.
Statistics expected_statistics(const MatrixHeader& a, const MatrixHeader& b, std::uint32_t num_rows = 0);

/// Statistics of these block rows of the product, where `a` is the header of all of A.
Statistics expected_of_rows(MatrixHeader a, const MatrixHeader& b, RowRange rows);

/// What the machine and the user allow.
struct Limits {
  Backend backend = Backend::automatic;    ///< asked for, or chosen before
  std::string why_backend{};               ///< why it was chosen before; empty: it was asked for
  bool gpu_failed = false;                 ///< a GPU that is there could not be used
  std::optional<BackendTimes> compared{};  ///< it was chosen before, from these times
  std::optional<KernelId> kernel{};        ///< asked for; nothing = the fastest
  bool force = false;                      ///< no limit on the launches of host-driven
  unsigned num_threads = 1;
  unsigned num_cores = 1;  ///< more threads than this are not faster
  std::uint64_t host_bytes = 0;
  std::optional<Gpu> device{};      ///< nothing: no device is usable
  std::vector<Gpu> more_devices{};  ///< that may share the product with it
  bool shares_always = false;       ///< they do; else only where the product is predicted to end earlier
  bool discards_result = false;     ///< the output is a character device, such as /dev/null
  std::string why_no_device{};
  Isa isa = Isa::portable;

  friend bool operator==(const Limits&, const Limits&) = default;

  [[nodiscard]] std::uint32_t num_devices() const { return static_cast<std::uint32_t>(more_devices.size()) + 1; }
  /// What each of the devices has at least. Values: device is set.
  [[nodiscard]] std::uint64_t device_bytes() const;
  [[nodiscard]] bool has_dense_tensor() const;
};

/// What a decision is about.
struct Problem {
  const Statistics& s;
  const Limits& limits;
};

/// Limits of a product on this machine. num_threads = 0: all cores.
Limits limits_of(const Machine& machine, unsigned num_threads);

}  // namespace spmm::plan
