// What will be run, decided before anything is allocated, and again once the operands are counted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "spmm/types.hpp"

namespace spmm {

/// What computes a product: a CUDA device or the CPU; automatic: the one that is predicted to end first.
enum class Backend : std::uint8_t { automatic, cuda, cpu };

/// "cuda", "cpu" or "auto".
constexpr std::string_view backend_name(Backend b) {
  return b == Backend::cuda ? "cuda" : b == Backend::cpu ? "cpu" : "auto";
}

/// A CUDA device that computes a product, or a share of it.
struct DeviceShare {
  int number = 0;                ///< of CUDA
  std::string name{};            ///< as CUDA gives it
  double share = 1;              ///< of the pairs; in a plan: expected
  std::uint64_t pairs = 0;       ///< after a run
  std::uint64_t num_panels = 0;  ///< after a run
  std::uint64_t num_blocks = 0;  ///< after a run: C blocks that are not zero
  double multiply_s = 0;         ///< after a run: its part of the stage; the stage lasts while any device is in it
};

/// The plan of a run: what a caller may read of a decision. Expected numbers are for evenly
/// spread blocks, unless `exact` or `sampled` says otherwise.
struct Plan {
  Backend backend = Backend::automatic;  ///< that runs
  std::string kernel{};                  ///< name of the multiply kernel
  bool transpose_a = false;              ///< A is transposed while it is read
  bool transpose_b = false;              ///< the same of B
  RowRange rows{};                       ///< block rows of C that are computed
  std::string why_backend{};             ///< one clause
  bool gpu_failed = false;               ///< a GPU that is there could not be used: why_backend says why
  bool exact = false;                    ///< decided with the exact number of pairs, not with the expected one
  bool sampled = false;      ///< decided with the pairs of a sample of indices; else, and not exact: evenly spread
  unsigned num_threads = 1;  ///< host threads
  std::uint64_t host_limit_bytes = 0;    ///< never exceeded by buffers of the run
  std::uint64_t device_limit_bytes = 0;  ///< 0 on the CPU
  std::uint64_t host_need_bytes = 0;     ///< upper bound of what the run allocates
  std::uint64_t device_need_bytes = 0;   ///< the same on each device
  double expected_pairs = 0;             ///< exact: the pairs that there are
  double expected_output_blocks = 0;     ///< exact: an upper bound
  std::uint32_t num_ranges = 1;          ///< out of core: ranges of block rows of A, one after the other
  std::uint32_t num_slabs = 1;           ///< parts of a range at most; 1 = each range fits with what it meets of B
  std::uint64_t scratch_bytes = 0;       ///< out of core: of a file without a name, both operands sorted; 0 = none
  std::uint64_t safe_limit_bytes = 0;    ///< Engine::plan(), verify_full: a limit within which the proof is sure to end
  std::vector<DeviceShare> devices{};    ///< CUDA: those that share the product
  double proof_s = 0;                    ///< --verify full: seconds of each thread without saturated elements
  double predicted_s = 0;                ///< the whole run: start of the device, reading, product, writing
};

}  // namespace spmm
