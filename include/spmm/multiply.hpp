// C = A * B for block-sparse matrices: exact u16 products, sums saturated at kMaxVal. Each call is a product on an
// separate engine; engine.hpp is for programs that multiply more than once.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "spmm/options.hpp"
#include "spmm/plan.hpp"
#include "spmm/report.hpp"
#include "spmm/types.hpp"

namespace spmm {

/// One kernel that can be asked for by name.
struct KernelInfo {
  std::string name;     ///< for ProductOptions::kernel
  Backend backend;      ///< that runs it
  std::string summary;  ///< one clause
};

/// Every kernel name: those of the CUDA backend, built or not, and the CPU's.
const std::vector<KernelInfo>& kernel_names();

/// What multiply() would do with these files, from their headers and the machine's limits alone. Runs nothing.
/// Errors: InputError, FormatError, ShapeError, OutOfMemory, DeviceError, UsageError.
Plan plan_multiply(const std::filesystem::path& a, const std::filesystem::path& b, const Options& options = {});

/// Multiplies two files into a third. The output path holds the old content or the complete new one, nothing between.
/// Errors: every class of error.hpp.
Report multiply(const std::filesystem::path& a, const std::filesystem::path& b, const std::filesystem::path& out,
                const Options& options = {});

/// Multiplies two matrices in memory. The result is sorted by (i, j) and holds no all-zero block.
/// Values: report: may be null. Errors: every class of error.hpp but InputError and OutputError.
ProductMatrix multiply(const BlockMatrix& a, const BlockMatrix& b, const Options& options = {},
                       Report* report = nullptr);

/// Whether this library was built with CUDA and a device is there. Makes no CUDA call: that it works is not known yet.
bool has_cuda_device();

/// Whether this library was built with that backend.
bool has_backend(Backend backend);

/// How this library was built: "spmm 0.3.0 (git ...), CUDA 13.0 for sm_90, backends: cuda cpu".
std::string version_string();

}  // namespace spmm
