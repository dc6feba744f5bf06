// What the machine and the user allow a product. Plain data, looked up once per product.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "spmm/plan.hpp"

namespace spmm::plan {

/// Instruction sets of the CPU kernels, those of a machine narrowest first.
enum class Isa : std::uint8_t { portable, avx2, avx512_vnni };

/// Any number of block rows from the first to the last with blocks.
inline constexpr std::uint32_t kAnySpan = 0xFFFF'FFFFu;

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

/// A CUDA device that the product may use.
struct Gpu {
  int number = 0;
  std::string name{};
  std::uint64_t bytes = 0;        ///< what the products of this engine may take together
  bool has_dense_tensor = false;  ///< can run the dense tensor-core kernel
  double arithmetic = 1;          ///< multiprocessors times clock, over those of the measured device (times.cpp)
  double memory = 1;              ///< bandwidth, likewise
  double start_s = 0;             ///< until it can be used; 0: its context exists

  friend bool operator==(const Gpu&, const Gpu&) = default;
};

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
  std::vector<Gpu> gpus{};       ///< that may share the product, the chosen one first; empty: none is usable, or wanted
  std::string why_no_gpu{};      ///< one clause, where gpus is empty
  bool shares_always = false;    ///< all of them do; else only where the product is predicted to end earlier
  bool discards_result = false;  ///< the output is a character device, such as /dev/null
  Isa isa = Isa::portable;

  friend bool operator==(const Limits&, const Limits&) = default;

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

}  // namespace spmm::plan
