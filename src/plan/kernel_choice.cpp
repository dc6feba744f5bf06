#include "plan/kernel_choice.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "kernels/tuning.hpp"
#include "plan/dense_plan.hpp"
#include "spmm/saturate.hpp"
#include "spmm/types.hpp"

namespace spmm::plan {
namespace {

/// Milliseconds until operands are parsed and sorted.
double build_ms(const ProductStatistics& s) {
  const auto blocks = static_cast<double>(s.num_blocks);
  return kernels::kLaunchesMs + blocks * static_cast<double>(input_record_bytes(s.m)) / kernels::kBuildBytesPerMs +
         blocks / kernels::kBuildBlocksPerMs;
}

double result_bytes(const ProductStatistics& s) {
  return static_cast<double>(s.num_c_blocks) * static_cast<double>(output_record_bytes(s.m));
}

/// row-spread and pair-list: each panel takes the one that suits it.
double rows_ms(const ProductStatistics& s) {
  if (s.num_pairs == 0) return build_ms(s);
  const auto pairs = static_cast<double>(s.num_pairs);
  const double elements = static_cast<double>(s.m) * s.m;
  const bool listed = pairs < kernels::kEscPairsPerBlock * static_cast<double>(s.num_rows) * s.nb;
  if (listed) {
    const double bytes = pairs * elements * 4 + result_bytes(s);  // both blocks of each pair, and the results
    return build_ms(s) + kernels::kEscMs + pairs / kernels::kEscListPairsPerMs + bytes / kernels::kEscBytesPerMs;
  }
  const bool has_kernel = s.m == 4 || s.m == 8 || s.m == 16 || s.m == 32 || s.m == 64;
  const double row_sum = static_cast<double>(s.num_blocks) / 2 /
                         static_cast<double>(std::max<std::uint64_t>(1, s.num_rows)) * s.m * s.max_element *
                         s.max_element;  // at most; beyond 32 bits every sum is checked for overflow
  const bool overflow_checked = row_sum > kMaxVal;
  const double terms_per_ms = !has_kernel        ? kernels::kGustavsonAnyTermsPerMs
                              : overflow_checked ? kernels::kGustavsonCheckedTermsPerMs
                                                 : kernels::kGustavsonTermsPerMs;
  const double pairs_per_ms = overflow_checked ? kernels::kGustavsonCheckedPairsPerMs : kernels::kGustavsonPairsPerMs;
  const double multiply = std::max(pairs / pairs_per_ms, pairs * elements * s.m / terms_per_ms);
  const double visited = static_cast<double>(s.num_rows) * s.nb * elements;
  return build_ms(s) + multiply + visited / kernels::kGustavsonElementsPerMs +
         result_bytes(s) / kernels::kGustavsonResultBytesPerMs;
}

constexpr double kFirstCheckTerms = 2'048;  // dense-tensor first checks for saturated tiles after so many

/// Share of the inner dimension that is multiplied before a C block is saturated, if elements are half the largest on
/// average.
double share_before_saturation(const ProductStatistics& s) {
  if (s.num_c_blocks == 0) return 1;
  const double mean = s.max_element / 2.0;
  const double sum = static_cast<double>(s.num_pairs) / static_cast<double>(s.num_c_blocks) * s.m * mean * mean;
  const double first_check = kFirstCheckTerms / (static_cast<double>(s.nb) * s.m);
  return std::min(1.0, std::max(first_check, kernels::kEarlyExitMargin * kMaxVal / std::max(sum, 1.0)));
}

/// How the dense kernel would run; group_columns = 0 where it cannot.
struct DensePlan {
  std::uint64_t num_panels = 0;
  std::uint32_t group_columns = 0;
};

/// Shapes: operands of `planes` bytes per element.
DensePlan plan_dense(const ProductStatistics& s, std::uint32_t planes) {
  if (s.nb == 0) return {};
  const std::uint64_t c_blocks = dense_panel_blocks(s.nb, s.m, s.max_c_blocks, s.free_bytes);
  if (c_blocks == 0) return {};
  const auto rows = static_cast<std::uint32_t>(std::min<std::uint64_t>(c_blocks / s.nb, s.num_rows));
  const std::uint64_t per_c_block = 2 * output_record_bytes(s.m) + c_block_bytes(s.m);
  const std::uint64_t taken = rows * std::uint64_t{s.nb} * per_c_block + plane_bytes(s.nb, rows, s.m, planes);
  if (taken >= s.free_bytes || rows == 0) return {};
  return {.num_panels = (s.num_rows + rows - 1) / rows,
          .group_columns = dense_group_columns(s.nb, s.m, planes, s.free_bytes - taken)};
}

/// Everything but the products of a dense kernel: operands are expanded, results written, read and packed.
double dense_frame_ms(const ProductStatistics& s, const DensePlan& plan, std::uint32_t planes) {
  const double side = static_cast<double>(s.nb) * s.m;
  const double expansions = plan.group_columns == s.nb ? 1 : static_cast<double>(plan.num_panels);
  return build_ms(s) + (expansions + 1) * side * side * planes / kernels::kPlaneBytesPerMs +
         3 * result_bytes(s) / kernels::kCopyBytesPerMs;
}

/// Multiply-adds of a dense product.
double dense_terms(const ProductStatistics& s) {
  const double side = static_cast<double>(s.nb) * s.m;
  return static_cast<double>(s.num_rows) * s.m * side * side;
}

void add_dense(const ProductStatistics& s, std::vector<Candidate>& candidates) {
  const std::uint32_t planes = num_byte_planes(s.max_element);
  const DensePlan tensor = plan_dense(s, planes);
  if (s.has_dense_tensor && tensor.group_columns != 0) {
    const double share = share_before_saturation(s);
    const std::uint32_t used = share < 1 ? 1 : planes;  // high bytes alone find what is saturated
    const double byte_terms = dense_terms(s) * used * used * share;
    candidates.push_back({.kernel = "dense-tensor",
                          .predicted_ms = dense_frame_ms(s, tensor, used) + byte_terms / kernels::kTensorTermsPerMs});
  }
  const DensePlan tiled = plan_dense(s, 2);
  if (tiled.group_columns != 0) {
    candidates.push_back({.kernel = "dense-tiled",
                          .predicted_ms = dense_frame_ms(s, tiled, 2) + dense_terms(s) / kernels::kTiledTermsPerMs});
  }
}

}  // namespace

std::vector<Candidate> rank_kernels(const ProductStatistics& statistics) {
  std::vector<Candidate> candidates{{.kernel = "rows", .predicted_ms = rows_ms(statistics)}};
  add_dense(statistics, candidates);
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& x, const Candidate& y) { return x.predicted_ms < y.predicted_ms; });
  return candidates;
}

std::string candidates_text(const std::vector<Candidate>& candidates) {
  std::string all;
  for (const Candidate& c : candidates) {
    std::array<char, 64> one{};
    std::snprintf(one.data(), one.size(), "%s%s %.3g ms", all.empty() ? "" : ", ", c.kernel.c_str(), c.predicted_ms);
    all += one.data();
  }
  return all;
}

}  // namespace spmm::plan
