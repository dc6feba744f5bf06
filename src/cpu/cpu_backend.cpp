#include "cpu/cpu_backend.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "cpu/auto_kernel.hpp"
#include "cpu/blas.hpp"
#include "cpu/dense_blas.hpp"
#include "cpu/isa.hpp"
#include "cpu/kernels.hpp"
#include "cpu/prepared.hpp"
#include "cpu/reference.hpp"
#include "cpu/row_merge.hpp"
#include "spmm/error.hpp"

namespace spmm::cpu {
namespace {

constexpr const char* kAuto = "auto";
constexpr const char* kReference = "reference";
constexpr const char* kRowMerge = "row-merge";
constexpr const char* kDenseBlas = "dense-blas";

bool has_blas() {
  return !blas_name().empty();
}

void check_kernel(const std::string& kernel) {
  if (kernel == kAuto || kernel == kReference || kernel == kRowMerge) return;
  if (kernel == kDenseBlas) {
    if (has_blas()) return;
    throw UsageError("--kernel", "dense-blas needs OpenBLAS, and this program was built without it",
                     text("use ", kRowMerge, ", or install OpenBLAS and build again"));
  }
  throw UsageError("--kernel", text("the CPU has no kernel '", kernel, "'"),
                   text("use ", kReference, ", ", kRowMerge, " or ", kDenseBlas));
}

/// Blocks of both operands are counted as if no line of them were empty of products: dense-blas is at least that fast.
PredictedTimes predict(const Prepared& product, Isa isa, unsigned num_threads) {
  const std::uint64_t cols = std::min<std::uint64_t>(product.b.cols.size(), product.blocks_per_side);
  return predict_times(
      {.isa = isa,
       .wide = choose_arithmetic(product.shape, product.a.bound, product.b.bound).wide,
       .num_threads = num_threads,
       .pairs = static_cast<double>(product.num_pairs),
       .extent = {.m = product.shape.m, .rows = product.a.num_rows(), .inner = product.b.num_rows(), .cols = cols}});
}

}  // namespace

std::string instruction_set() {
  return std::string(isa_name(choose_isa()));
}

std::string build_info() {
  return blas_name();
}

std::string default_kernel() {
  return has_blas() ? kAuto : kRowMerge;
}

std::string expected_kernels(const MatrixHeader& a, const MatrixHeader& b, const Plan& plan) {
  if (plan.kernel != kAuto) return {};
  const std::uint64_t nb = a.blocks_per_side();
  return predicted_text(predict_times({.isa = choose_isa(),
                                       .wide = false,
                                       .num_threads = std::max(1u, plan.num_threads),
                                       .pairs = plan.expected_pairs,
                                       .extent = {.m = a.m,
                                                  .rows = std::min<std::uint64_t>(a.num_blocks, nb),
                                                  .inner = std::min<std::uint64_t>(b.num_blocks, nb),
                                                  .cols = std::min<std::uint64_t>(b.num_blocks, nb)}}));
}

std::uint64_t need_bytes(const MatrixHeader& a, const MatrixHeader& b, const Plan& plan) {
  if (plan.kernel == kReference) return reference_bytes(a, b, plan);
  return plan.kernel == kDenseBlas ? dense_blas_bytes(a, b, plan) : row_merge_bytes(a, b, plan);
}

ProductStats multiply(const Source& a, const Source& b, Sink& sink, const Plan& plan, const Run& run) {
  check_kernel(plan.kernel);
  if (plan.kernel == kReference) return multiply_reference(a, b, sink, plan, run);
  const Isa isa = choose_isa();
  Prepared product = prepare(a, b, packed_shape(isa, a.header().m), run);
  std::string kernel = plan.kernel;
  std::string reason = plan.reason;
  if (kernel == kAuto) {
    const PredictedTimes times = predict(product, isa, run.num_threads);
    const bool fits = dense_blas_bytes(a.header(), b.header(), plan) <= plan.host_limit_bytes;
    kernel = has_blas() && fits && times.prefers_dense() ? kDenseBlas : kRowMerge;
    if (has_blas()) {
      reason += text("; predicted ", predicted_text(times), fits ? "" : ", but the dense panels do not fit");
    }
  }
  ProductStats stats = kernel == kDenseBlas ? multiply_dense_blas(product, sink, plan, run)
                                            : multiply_row_merge(product, isa, sink, plan, run);
  stats.kernel = kernel;
  stats.reason = reason;
  return stats;
}

}  // namespace spmm::cpu
