#include "cpu/result_ranges.hpp"

#include <algorithm>
#include <span>

#include "plan/part_cut.hpp"

namespace spmm::cpu {

std::vector<std::uint32_t> cut_ranges(const Prepared& product, Sink& sink) {
  const std::uint32_t num_rows = product.a.num_rows();
  if (sink.num_ranges() == 1) return {0, num_rows};
  const std::span<const std::uint32_t> columns(product.b.cols.data(), product.b.cols.size());
  const plan::ExpectedBlocks expected(
      plan::sampled_spread(plan::sample_of(columns), columns.size(), product.b.num_rows(), product.blocks_per_side));
  const auto weight = [&](std::uint32_t row) { return expected(static_cast<double>(product.row_pairs[row])); };
  std::vector<std::uint32_t> borders = plan::cut_parts(num_rows, weight, sink.num_ranges());
  sink.set_ranges(plan::ranges_of(borders, {product.a.rows.data(), num_rows}, product.blocks_per_side));
  return borders;
}

}  // namespace spmm::cpu
