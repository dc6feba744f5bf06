// C = A * B for block-sparse matrices: exact u16 products, sums saturated at kMaxVal.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "spmm/block_matrix.hpp"
#include "spmm/plan.hpp"
#include "spmm/report.hpp"

namespace spmm {

/// How to run. The defaults need no tuning.
struct Options {
  Backend backend = Backend::automatic;  ///< automatic: cuda where a device is usable, else cpu
  std::string kernel = "auto";           ///< a name of kernel_names(), or "auto"
  int device = -1;                       ///< CUDA device number; -1 = automatic (also by local rank on a cluster)
  unsigned num_threads = 0;              ///< host threads; 0 = all cores this process may use
  std::uint64_t memory_limit_bytes = 0;  ///< for host and device each; 0 = most of what is free
  bool force = false;                    ///< lift the launch limit of the host-driven kernel
  bool durable = false;                  ///< files: fsync around the rename
  bool no_clobber = false;               ///< files: refuse to replace the output
  std::uint64_t verify_blocks = 0;       ///< files: recompute that many result blocks, and as many absent ones
  std::uint64_t verify_seed = 1;
  ProgressFn on_progress;                     ///< may be empty
  const std::atomic<bool>* cancel = nullptr;  ///< set to true to stop: Interrupted is thrown, nothing is written
};

/// One kernel that can be asked for by name.
struct KernelInfo {
  std::string name;
  Backend backend;
  std::string summary;
};

/// Every kernel name: those of the CUDA backend, built or not, and the CPU's ("dense-blas" only if built with
/// OpenBLAS).
const std::vector<KernelInfo>& kernel_names();

/// What multiply() would do with these files, from their headers and the machine's limits alone. Runs nothing.
Plan plan_multiply(const std::filesystem::path& a, const std::filesystem::path& b, const Options& options = {});

/// Multiplies two files into a third. The output path holds the old content or the complete new one, nothing between.
/// Errors: every class of error.hpp.
Report multiply(const std::filesystem::path& a, const std::filesystem::path& b, const std::filesystem::path& out,
                const Options& options = {});

/// Multiplies two matrices in memory. The result is sorted by (i, j) and holds no all-zero block.
/// Errors: ShapeError, FormatError, OutOfMemory, DeviceError, Interrupted.
ProductMatrix multiply(const BlockMatrix& a, const BlockMatrix& b, const Options& options = {},
                       Report* report = nullptr);

/// How this library was built: "spmm 0.1.0 (git ...), CUDA 13.0 for sm_90, OpenBLAS 0.3.21, backends: cuda cpu".
std::string version_string();

}  // namespace spmm
