// Every multiply kernel, one row each: its name, what it needs, when it is fastest, and how long it takes. A new kernel
// is a row here and one in its backend.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kernels/tuning.hpp"
#include "plan/execution.hpp"
#include "spmm/plan.hpp"

namespace spmm::plan {

/// Host bytes of a product as a function of its shape.
struct HostBytes {
  std::uint64_t preparing = 0;   ///< peak while operands are read, sorted and packed
  std::uint64_t resident = 0;    ///< operands and lists while it multiplies
  std::uint64_t per_thread = 0;  ///< lists of one worker

  [[nodiscard]] std::uint64_t total(unsigned num_threads, std::uint64_t num_buffers, std::uint64_t buffer_bytes) const {
    return std::max(preparing, resident + num_buffers * buffer_bytes + num_threads * per_thread);
  }
};

/// Host memory of a CPU kernel: what its arrays add up to; src/cpu/simd/layout.cpp. Values: a_span as in Counts.
HostBytes row_merge_bytes(const MatrixHeader& a, const MatrixHeader& b, Isa isa, std::uint32_t a_span = kAnySpan);
HostBytes reference_bytes(const MatrixHeader& a, const MatrixHeader& b, Isa isa, std::uint32_t a_span = kAnySpan);
using HostMemory = HostBytes (*)(const MatrixHeader& a, const MatrixHeader& b, Isa isa, std::uint32_t a_span);

/// Why a CUDA kernel cannot run a product of blocks that it takes, or "".
using DeviceRefusal = std::string (*)(const Counts&);

/// The memory of dense operands: none, byte planes, u16 elements, or byte planes of non-empty tiles.
enum class Expansion : std::uint8_t { none, byte_planes, elements, tiles };

struct KernelRow {
  std::string_view name;  ///< on the command line and in reports
  Backend backend;
  std::string_view summary;
  bool is_automatic = false;  ///< "auto" may take it
  bool b_by_columns = false;  ///< wants B by block columns
  bool needs_hopper = false;
  std::uint32_t max_side = 0;     ///< largest m that it takes; 0 = any
  std::uint32_t max_columns = 0;  ///< most block columns of C that it takes; 0 = any
  Listing listing = Listing::never;
  Expansion expansion = Expansion::none;
  bool reads_unpadded = false;         ///< takes blocks as they are, of any side
  bool spreads_rows = false;           ///< wants no pairs of single blocks of A for panels that are not listed
  bool prefilters = false;             ///< may prove saturation by high bytes first
  bool launches_each_c_block = false;  ///< from the host
  bool may_outgrow = false;            ///< exact: may want more memory than was expected of headers
  std::uint64_t panel_bytes = kernels::kPanelBytes;  ///< CUDA: records of a panel that are useful
  unsigned max_threads = 0;                          ///< CPU; 0 = any number
  bool (*suits)(const Counts&) = nullptr;  ///< CUDA: whether it is faster than the rows in front; null: never taken
  DeviceRefusal refusal = nullptr;
  HostMemory host_bytes = nullptr;

  [[nodiscard]] bool is_dense() const { return expansion != Expansion::none; }
};

/// All rows, those of CUDA first, in the order in which help texts list them. The rule looks at them from the last one
/// on.
std::span<const KernelRow> registry();

/// Null for an unknown name.
const KernelRow* kernel_named(std::string_view name);

/// Errors: logic_error for an unknown name.
const KernelRow& row_of(std::string_view kernel);

/// The kernel that is fastest, were there memory enough: the last one of the registry that suits, or its first one.
/// Values: before tiles are counted, any but tile-tensor. Test: tests/unit/plan/rule_test.cpp compares it with
/// measured times.
const KernelRow& choose_kernel(const Counts& s, bool has_dense_tensor);

/// Products of tiles that take tile-tensor as long as the kernel without it; 0 if its tiles are not worth counting.
std::uint64_t tile_stages_worth(const Counts& s);

/// A panel with fewer pairs than this for each of its C blocks is listed; in others every C block is visited.
double listed_pairs_per_block(std::uint32_t m);

/// Whether a product is listed as a whole.
bool is_listed(const Counts& s);

/// Byte products of dense-tensor.
double dense_byte_products(const Counts& s);

/// The tiles of tile-tensor. Exact counts: as they are counted.
kernels::TileGrid tile_grid(const Counts& s);

}  // namespace spmm::plan
