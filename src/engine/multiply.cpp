// The public functions: names and versions, and products on engines of their own.
#include "spmm/multiply.hpp"

#include "base/text.hpp"
#include "cpu/cpu_backend.hpp"
#include "cuda/cuda_backend.hpp"
#include "spmm/engine.hpp"

namespace spmm {

namespace fs = std::filesystem;

const std::vector<KernelInfo>& kernel_names() {
  static const std::vector<KernelInfo> kNames = [] {
    std::vector<KernelInfo> names = {
        {"rows", Backend::cuda, "per panel pair-list or row-spread, by density"},
        {"row-spread", Backend::cuda, "one CTA per stretch of a result row, sums in shared memory"},
        {"pair-list", Backend::cuda, "pairs sorted by result block, a warp multiplies each block's list"},
        {"dense-tensor", Backend::cuda, "dense byte planes on integer tensor cores (Hopper)"},
        {"dense-tiled", Backend::cuda, "dense copies and register tiles on CUDA cores"},
        {"two-pointer", Backend::cuda, "one CTA per result tile merges two sorted lists in shared memory"},
        {"binary-search", Backend::cuda, "one CTA per result block; each block of A's row is searched in B's column"},
        {"host-driven", Backend::cuda, "the host merges the lists and launches one result block at a time"},
        {"row-merge", Backend::cpu, "threads over block rows, pairs ordered by column, SIMD dot products"},
        {"reference", Backend::cpu, "the definition, one thread, slow"},
    };
    const std::string blas = cpu::build_info();
    if (!blas.empty()) names.insert(names.end() - 1, {"dense-blas", Backend::cpu, "dense panels of doubles, " + blas});
    return names;
  }();
  return kNames;
}

std::string version_string() {
  const std::string cuda = cuda::build_info();
  const std::string blas = cpu::build_info();
  return text("spmm ", SPMM_VERSION, " (git ", SPMM_GIT_REVISION, "), ",
              cuda.empty() ? "built without CUDA, " : "CUDA " + cuda + ", ",
              blas.empty() ? "built without OpenBLAS, " : blas + ", ",
              cuda.empty() ? "backends: cpu" : "backends: cuda cpu");
}

Plan plan_multiply(const fs::path& a, const fs::path& b, const Options& options) {
  return Engine(options).plan(a, b, options);
}

Report multiply(const fs::path& a, const fs::path& b, const fs::path& out, const Options& options) {
  return Engine(options).multiply(a, b, out, options);
}

ProductMatrix multiply(const BlockMatrix& a, const BlockMatrix& b, const Options& options, Report* report) {
  return Engine(options).multiply(a, b, options, report);
}

}  // namespace spmm
