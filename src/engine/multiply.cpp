// The public functions: names and versions, products on separate engines, products of the caller's arrays.
#include "spmm/multiply.hpp"

#include "base/text.hpp"
#include "cuda/backend.hpp"
#include "plan/registry.hpp"
#include "spmm/arrays.hpp"
#include "spmm/engine.hpp"

namespace spmm {

namespace fs = std::filesystem;

const std::vector<KernelInfo>& kernel_names() {
  static const std::vector<KernelInfo> kNames = [] {
    std::vector<KernelInfo> names;
    for (const plan::KernelRow& row : plan::registry()) {
      names.push_back({std::string(row.name), row.backend, std::string(row.summary)});
    }
    return names;
  }();
  return kNames;
}

std::string version_string() {
  const std::string cuda = cuda::build_info();
  return text("spmm ", SPMM_VERSION, " (git ", SPMM_GIT_REVISION, "), ",
              cuda.empty() ? "built without CUDA, " : "CUDA " + cuda + ", ",
              cuda.empty() ? "backends: cpu" : "backends: cuda cpu");
}

bool has_backend(Backend backend) {
  return backend != Backend::cuda || !cuda::build_info().empty();
}

bool has_cuda_device() {
  std::string why_not;
  return cuda::may_start(why_not);
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

BsrMatrix<std::uint32_t> multiply(Engine& engine, const BsrView<std::uint16_t>& a, const BsrView<std::uint16_t>& b,
                                  const ProductOptions& options, Report* report) {
  const auto factor_a = as_factor(a, options.transpose_a);
  const auto factor_b = as_factor(b, options.transpose_b);
  const std::uint32_t n = padded_side(factor_a, factor_b, name_of(a, "matrix A"), name_of(b, "matrix B"));
  checked_rows(options.rows, static_cast<std::uint32_t>(factor_a.rows / a.m));  // not padded
  const auto source_a = make_bsr_source(a, n, name_of(a, "matrix A"));
  const auto source_b = make_bsr_source(b, n, name_of(b, "matrix B"));
  BsrMatrix<std::uint32_t> product;
  const auto sink = make_bsr_sink(product, factor_a.rows, factor_b.cols);
  Report finished = engine.multiply(*source_a, *source_b, *sink, options);
  if (report != nullptr) *report = std::move(finished);
  return product;
}

}  // namespace spmm
