#include "tools/dense/dense_report.hpp"

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/text.hpp"

namespace spmm::tools {
namespace {

constexpr std::size_t kLineChars = 256;

/// printf into a string.
template <class... Values>
std::string format(const char* pattern, const Values&... values) {
  std::array<char, kLineChars> out{};
  std::snprintf(out.data(), out.size(), pattern, values...);
  return out.data();
}

/// Fixed columns; occupancy and what leads to it are blank where the kernel has none.
constexpr const char* kColumns = "%-18s %-11s %5s %11s %11s %9s %8s %5s %8s %7s %9s  %s\n";

std::string line(const std::array<std::string, 12>& words) {
  const auto word = [&](std::size_t w) { return words[w].c_str(); };
  return format(kColumns, word(0), word(1), word(2), word(3), word(4), word(5), word(6), word(7), word(8), word(9),
                word(10), word(11));
}

std::string number(double value) {
  return format(value >= 1000 ? "%.0f" : "%.4g", value);
}

std::string count(std::uint64_t value) {
  return std::to_string(value);
}

/// The verdict of the check, with what differs.
std::string verdict(const DenseResult& result) {
  if (!result.comparison) return "not checked";
  const dense::Comparison& c = *result.comparison;
  std::string words = result.passed() ? "ok" : text("WRONG: ", c.differences, " of ", c.elements, " differ");
  if (c.largest == 0) return words + ", no difference";
  return words + format(", largest %.3g (threshold %.3g), mean square %.3g, norm %.3g (relative %.3g)", c.largest,
                        result.threshold, c.mean_square, c.norm, c.relative_norm);
}

Json comparison_json(const DenseResult& result) {
  const dense::Comparison& c = *result.comparison;
  return {{"passed", result.passed()},
          {"threshold", result.threshold},
          {"elements", c.elements},
          {"differences", c.differences},
          {"largest_difference", c.largest},
          {"mean_square_error", c.mean_square},
          {"norm", c.norm},
          {"relative_norm", c.relative_norm}};
}

Json result_json(const DenseResult& result) {
  const dense::Request& request = result.request;
  Json json = {{"kernel", request.kernel}, {"tile", request.tile}, {"status", result.ran() ? "ok" : "refused"}};
  if (!result.ran()) {
    json["reason"] = result.refusal;
    return json;
  }
  const dense::Resources& resources = result.measurement.resources;
  json["device"] = result.measurement.device;
  json["median_ms"] = result.median_ms();
  json["min_ms"] = result.min_ms();
  json["run_ms"] = result.measurement.run_ms;
  json["gflops"] = result.gflops();
  json["resources"] = {{"threads_per_cta", resources.threads_per_cta},
                       {"registers_per_thread", resources.registers_per_thread},
                       {"shared_bytes_per_cta", resources.shared_bytes_per_cta},
                       {"ctas_per_multiprocessor", resources.ctas_per_multiprocessor},
                       {"occupancy", resources.occupancy}};
  if (result.comparison) json["check"] = comparison_json(result);
  return json;
}

}  // namespace

std::string shape_text(dense::Shape shape) {
  return text(shape.rows, "x", shape.inner, "x", shape.cols);
}

std::string dense_kernels_text() {
  std::string lines;
  for (const dense::KernelInfo& kernel : dense::kernels()) {
    std::string types;
    std::string tiles;
    for (const dense::Type type : kernel.types) types += text(types.empty() ? "" : ", ", dense::type_name(type));
    for (const unsigned tile : kernel.tiles) tiles += text(tiles.empty() ? "; tile " : ", ", tile);
    lines += format("%-12s ", kernel.name.c_str()) + text(kernel.what, " (", types, tiles, ")\n");
  }
  return lines;
}

Json dense_kernels_json() {
  Json list = Json::array();
  for (const dense::KernelInfo& kernel : dense::kernels()) {
    Json types = Json::array();
    for (const dense::Type type : kernel.types) types.push_back(dense::type_name(type));
    list.push_back({{"kernel", kernel.name},
                    {"what", kernel.what},
                    {"on_device", kernel.on_device},
                    {"types", std::move(types)},
                    {"tiles", kernel.tiles}});
  }
  return {{"program", "spmm-dense"}, {"kernels", std::move(list)}};
}

std::string dense_table_header() {
  return line({"shape", "kernel", "tile", "ms median", "ms min", "GFLOPS", "threads", "regs", "shared", "CTAs/SM",
               "occupancy", "check"});
}

std::string dense_table_row(const DenseResult& result) {
  const dense::Request& request = result.request;
  const std::string shape = shape_text(request.shape);
  const std::string tile = request.tile == 0 ? "" : count(request.tile);
  if (!result.ran()) {
    return format("%-18s %-11s %5s  refused: ", shape.c_str(), request.kernel.c_str(), tile.c_str()) + result.refusal +
           "\n";
  }
  const dense::Resources& resources = result.measurement.resources;
  std::array<std::string, 12> words = {
      shape, request.kernel, tile, number(result.median_ms()), number(result.min_ms()), number(result.gflops())};
  if (resources.threads_per_cta != 0) {
    words[6] = count(resources.threads_per_cta);
    words[7] = count(resources.registers_per_thread);
    words[8] = count(resources.shared_bytes_per_cta);
    words[9] = count(resources.ctas_per_multiprocessor);
    words[10] = format("%.0f %%", resources.occupancy * 100);
  }
  words[11] = verdict(result);
  return line(words);
}

std::string check_text(const DenseProduct& product, const DenseOptions& options) {
  if (product.rows_checked == 0) return "";
  return text(shape_text(product.shape), ": ", product.rows_checked, " of ", product.shape.rows,
              " rows checked against the host",
              options.type == dense::Type::f32 ? ", which sums in double\n" : ", every element exactly\n");
}

Json dense_product_json(const DenseProduct& product) {
  Json results = Json::array();
  for (const DenseResult& result : product.results) results.push_back(result_json(result));
  return {{"rows", product.shape.rows},
          {"inner", product.shape.inner},
          {"cols", product.shape.cols},
          {"rows_checked", product.rows_checked},
          {"results", std::move(results)}};
}

}  // namespace spmm::tools
