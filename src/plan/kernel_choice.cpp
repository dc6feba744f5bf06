#include "plan/kernel_choice.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "kernels/tuning.hpp"
#include "spmm/saturate.hpp"

namespace spmm::plan {
namespace {

/// Milliseconds to write, flag and pack the result blocks.
double compact_ms(const ProductStatistics& s) {
  return static_cast<double>(s.num_tiles) * s.m * s.m * 4 * 3 / kernels::kCopyBytesPerMs;
}

double rows_ms(const ProductStatistics& s) {
  const auto pairs = static_cast<double>(s.num_pairs);
  const bool listed = pairs < kernels::kExpandPairsPerTile * static_cast<double>(s.num_rows) * s.nb;
  const double terms = pairs * s.m * s.m * s.m;
  const double multiply = listed ? pairs / kernels::kListedPairsPerMs
                                 : std::max(pairs / kernels::kSpreadPairsPerMs, terms / kernels::kSpreadTermsPerMs);
  return multiply + compact_ms(s);
}

/// Share of the inner dimension that is multiplied before a tile is saturated, if elements are half the largest on
/// average.
double share_before_saturation(const ProductStatistics& s) {
  if (s.num_tiles == 0) return 1;
  const double mean = s.max_element / 2.0;
  const double sum = static_cast<double>(s.num_pairs) / static_cast<double>(s.num_tiles) * s.m * mean * mean;
  return std::min(1.0, kernels::kEarlyExitMargin * kMaxVal / std::max(sum, 1.0));
}

double dense_tensor_ms(const ProductStatistics& s) {
  const double side = static_cast<double>(s.nb) * s.m;
  const double planes = num_byte_planes(s.max_element);
  const double terms = static_cast<double>(s.num_rows) * s.m * side * side * planes * planes;
  const double plane_traffic = 2 * side * side * planes * 2;
  return terms * share_before_saturation(s) / kernels::kTensorTermsPerMs + plane_traffic / kernels::kCopyBytesPerMs +
         compact_ms(s);
}

bool dense_tensor_fits(const ProductStatistics& s) {
  if (!s.has_dense_tensor || s.max_tiles < s.nb) return false;
  const std::uint32_t planes = num_byte_planes(s.max_element);
  const auto lines = static_cast<std::uint32_t>(std::min<std::uint64_t>(s.max_tiles / s.nb, s.nb));
  return plane_bytes(s.nb, s.nb, s.m, planes) + plane_bytes(s.nb, lines, s.m, planes) <= s.free_bytes;
}

}  // namespace

std::vector<Candidate> rank_kernels(const ProductStatistics& statistics) {
  std::vector<Candidate> candidates{{.kernel = "rows", .predicted_ms = rows_ms(statistics)}};
  if (dense_tensor_fits(statistics)) {
    candidates.push_back({.kernel = "dense-tensor", .predicted_ms = dense_tensor_ms(statistics)});
  }
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
