// How to run a product. The defaults need no tuning.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "spmm/plan.hpp"
#include "spmm/report.hpp"
#include "spmm/selection.hpp"
#include "spmm/types.hpp"

namespace spmm {

/// EngineOptions::devices: {kAllDevices} stands for every visible one.
inline constexpr int kAllDevices = -1;

/// What the products of one engine share.
struct EngineOptions {
  int device = -1;                       ///< CUDA device number; -1 = automatic (also by local rank on a cluster)
  std::vector<int> devices{};            ///< CUDA devices that share every product; empty: `device`, and where that is
                                         ///< automatic others too, for products that are predicted to end earlier then
  unsigned num_threads = 0;              ///< host threads of a product; 0 = all cores this process may use
  std::uint64_t memory_limit_bytes = 0;  ///< of all products together, host and device each; 0 = most of what is free
};

/// What a product does if elements of its result are 2^32 - 1: their true sums are that or larger.
enum class OnSaturation : std::uint8_t {
  report,  ///< says how many: Report::saturated_elements
  error,   ///< SaturationError; the output stays as it was
};

/// What belongs to one product.
struct ProductOptions {
  Backend backend =
      Backend::automatic;       ///< automatic: the one that is predicted to end first; device numbers mean cuda
  std::string kernel = "auto";  ///< a name of kernel_names(), or "auto"
  unsigned max_threads = 0;     ///< host threads at most; 0 = those of the engine
  bool transpose_a = false;     ///< multiply by the transpose of A, made as A is read: no pass or copy more
  bool transpose_b = false;     ///< the same of B
  RowRange rows{};              ///< block rows of C, after the transposition, that are computed; all others stay empty
  std::filesystem::path pattern{};  ///< files: only the blocks of C at the places of this matrix's; its values do not
                                    ///< matter. In memory, and by kernels of its own. Empty: all of C
  Selection selection{};            ///< elements of C that are kept; of u16 operands, all of C
  bool force = false;               ///< lift the launch limit of the host-driven kernel
  bool durable = false;             ///< files: fsync around the rename
  bool no_clobber = false;          ///< files: refuse to replace the output
  OnSaturation on_saturation = OnSaturation::report;  ///< elements of the result that are 2^32 - 1
  std::uint64_t verify_blocks = 0;                    ///< N: prove the block rows of N blocks of A, chosen at random
  std::uint64_t verify_seed = 1;                      ///< of that choice
  bool verify_full = false;                           ///< prove the whole result instead: see Report::proof
  std::uint64_t proof_key = 0;                        ///< of the random numbers of a proof; 0 = numbers of the system
  ProgressFn on_progress{};                           ///< may be empty
  NoticeFn on_notice{};                               ///< may be empty
  Trace* trace = nullptr;                             ///< filled once the product is done: what happened when
  const std::atomic<bool>* cancel = nullptr;  ///< set to true to stop: Interrupted is thrown, nothing is written
};

/// Options of a product on a separate engine.
struct Options : EngineOptions, ProductOptions {};

}  // namespace spmm
