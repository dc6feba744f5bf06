// Every multiply kernel, one row each: its name, what it takes and what it needs. A new kernel is a row here, one in
// its backend, and an inequality in rule.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kernels/tuning.hpp"
#include "plan/choice.hpp"
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

/// The memory of dense operands: none, byte planes, u16 elements, or byte planes of non-empty tiles.
enum class Expansion : std::uint8_t { none, byte_planes, elements, tiles };

struct KernelRow {
  std::string_view name;  ///< on the command line and in reports
  Backend backend;
  std::string_view summary;
  bool is_automatic = false;      ///< "auto" may take it
  bool b_by_columns = false;      ///< wants B by block columns
  std::uint32_t max_side = 0;     ///< largest m that it takes; 0 = any
  std::uint32_t max_columns = 0;  ///< most block columns of C that it takes; 0 = any
  Listing listing = Listing::never;
  Expansion expansion = Expansion::none;
  bool reads_unpadded = false;         ///< takes blocks as they are, of any side
  bool spreads_rows = false;           ///< wants no pairs of single blocks of A for panels that are not listed
  bool launches_each_c_block = false;  ///< from the host
  bool may_outgrow = false;            ///< exact: may want more memory than was expected of headers
  std::uint64_t panel_bytes = kernels::kPanelBytes;  ///< CUDA: records of a panel that are useful
  unsigned max_threads = 0;                          ///< CPU; 0 = any number
  HostMemory host_bytes = nullptr;                   ///< CPU

  [[nodiscard]] bool is_dense() const { return expansion != Expansion::none; }
  /// Tensor cores by warpgroups.
  [[nodiscard]] bool needs_hopper() const {
    return expansion == Expansion::byte_planes || expansion == Expansion::tiles;
  }
  /// Reads blocks padded to a side that it is compiled for.
  [[nodiscard]] bool pads_blocks() const { return !b_by_columns && !is_dense() && !reads_unpadded; }
  /// Panels may be multiplied from lists of pairs, which name blocks in file order.
  [[nodiscard]] bool may_list() const { return pads_blocks() && listing != Listing::bounded; }
};

/// All rows, those of CUDA first, in the order in which help texts list them.
std::span<const KernelRow> registry();

/// Null for an unknown name.
const KernelRow* kernel_named(std::string_view name);

/// Errors: logic_error for an unknown name.
const KernelRow& row_of(std::string_view kernel);

}  // namespace spmm::plan
