// What spmm-info found, in words and as JSON.
#include "tools/info/info_text.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/text.hpp"
#include "report/text.hpp"

namespace spmm::tools {
namespace {

constexpr std::size_t kBarWidth = 40;

double block_density(const MatrixInfo& info) {
  const double nb = info.header.blocks_per_side();
  return static_cast<double>(info.num_blocks) / (nb * nb);
}

double element_density(const MatrixInfo& info) {
  const double n = info.header.n;
  return static_cast<double>(info.nonzero_elements) / (n * n);
}

std::string percent(double share) {
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), "%.4g %%", share * 100);
  return out.data();
}

/// Lowest and highest count of a step of the histogram.
std::uint64_t step_low(std::size_t power) {
  return std::uint64_t{1} << power;
}
std::uint64_t step_high(std::size_t power) {
  return 2 * step_low(power) - 1;
}

std::string histogram_line(const std::string& label, std::uint64_t rows, std::uint64_t most) {
  const std::uint64_t bar = rows == 0 ? 0 : std::max<std::uint64_t>(1, rows * kBarWidth / most);
  const std::string padding(label.size() < 22 ? 22 - label.size() : 1, ' ');
  return text("  ", label, padding, std::string(bar, '#'), bar > 0 ? " " : "", rows, "\n");
}

std::string histogram(const Distribution& rows) {
  std::uint64_t most = rows.empty;
  for (const std::uint64_t count : rows.by_power) most = std::max(most, count);
  std::string lines = "block rows by number of blocks:\n";
  if (rows.empty > 0) lines += histogram_line("0", rows.empty, most);
  const auto first = std::find_if(rows.by_power.begin(), rows.by_power.end(), [](std::uint64_t c) { return c > 0; });
  for (auto power = static_cast<std::size_t>(first - rows.by_power.begin()); power < rows.by_power.size(); ++power) {
    const std::string label = power == 0 ? "1" : text(step_low(power), " - ", step_high(power));
    lines += histogram_line(label, rows.by_power[power], most);
  }
  return lines;
}

void add_distribution(cli::JsonWriter& json, const char* name, const Distribution& counts) {
  json.open(name, '{')
      .add("empty", counts.empty)
      .add("min", counts.min)
      .add("median", counts.median)
      .add("mean", counts.mean)
      .add("max", counts.max)
      .open("histogram", '[');
  for (std::size_t power = 0; power < counts.by_power.size(); ++power) {
    json.open("", '{').add("from", step_low(power)).add("to", step_high(power)).add("count", counts.by_power[power]);
    json.close('}');
  }
  json.close(']').close('}');
}

}  // namespace

std::string info_text(MatrixInfo& info) {
  const MatrixHeader& header = info.header;
  const Distribution rows = distribution_of(info.rows);
  std::string lines = text(printable(info.name), "\n");
  lines += text("n ", header.n, ", m ", header.m, ", blocks ", info.num_blocks, " (k) on a grid of ",
                header.blocks_per_side(), " x ", header.blocks_per_side(), ", elements of ",
                info.type == ElementType::u16 ? 16 : 32, " bits\n");
  lines += text("file size: ", info.file_bytes, " bytes (", human_bytes(info.file_bytes), ")\n");
  lines += text("density: ", percent(block_density(info)), " of the blocks, ", percent(element_density(info)),
                " of the elements (", info.nonzero_elements, " are not 0)\n");
  lines += text("largest element: ", info.largest_element, "\nall-zero blocks: ", info.zero_blocks, "\n");
  if (info.saturated_elements > 0) lines += cli::saturation_text(info.saturated_elements) + "\n";
  lines += text("records: ", info.sorted ? "in the order of (i, j)" : "not in the order of (i, j)", "\n");
  lines += text("blocks per block row: min ", rows.min, ", median ", rows.median, ", mean ", rows.mean, ", max ",
                rows.max, "; empty block rows: ", rows.empty, "\n");
  return lines + histogram(rows);
}

std::string product_text(const ProductInfo& product, std::uint32_t m) {
  const std::string saturation = product.max_saturated_elements == 0
                                     ? "none can saturate"
                                     : text("at most ", cli::saturation_text(product.max_saturated_elements),
                                            ", all in result blocks of ", product.saturating_pairs, " pairs or more");
  return text("product (from the places of the blocks, and the largest elements)\npairs: ", product.pairs, " (exact), ",
              static_cast<double>(product.pairs) * m * m * m, " multiply-adds\nresult blocks: about ",
              product.expected_blocks, " if the blocks are evenly spread, at most ", product.max_blocks,
              "\noutput file: about ", product.expected_bytes, " bytes (", human_bytes(product.expected_bytes),
              "), at most ", product.max_bytes, " bytes (", human_bytes(product.max_bytes), ")\nelements: ", saturation,
              "\n");
}

void add_info(cli::JsonWriter& json, const char* name, MatrixInfo& info) {
  json.open(name, '{')
      .add("file", info.name)
      .add("type", type_name(info.type))
      .add("n", info.header.n)
      .add("m", info.header.m)
      .add("blocks", info.num_blocks)
      .add("blocks_per_side", info.header.blocks_per_side())
      .add("file_bytes", info.file_bytes)
      .add("block_density", block_density(info))
      .add("element_density", element_density(info))
      .add("nonzero_elements", info.nonzero_elements)
      .add("largest_element", info.largest_element)
      .add("saturated_elements", info.saturated_elements)
      .add("zero_blocks", info.zero_blocks)
      .add("sorted", info.sorted);
  add_distribution(json, "block_rows", distribution_of(info.rows));
  add_distribution(json, "block_columns", distribution_of(info.columns));
  json.close('}');
}

void add_product(cli::JsonWriter& json, const char* name, const ProductInfo& product) {
  json.open(name, '{')
      .add("pairs", product.pairs)
      .add("expected_blocks", product.expected_blocks)
      .add("max_blocks", product.max_blocks)
      .add("expected_bytes", product.expected_bytes)
      .add("max_bytes", product.max_bytes)
      .add("max_saturated_elements", product.max_saturated_elements)
      .close('}');
}

}  // namespace spmm::tools
