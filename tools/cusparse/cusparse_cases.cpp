#include "tools/cusparse/cusparse_cases.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/run/parallel.hpp"
#include "base/text.hpp"
#include "spmm/io.hpp"
#include "spmm/multiply.hpp"
#include "tools/bench/report.hpp"
#include "tools/cusparse/child_lines.hpp"

namespace spmm::tools {
namespace {

/// Median, least and largest of a figure of the runs.
template <class Figure>
Json spread_json(const std::vector<CusparseTimes>& runs, const Figure& figure) {
  std::vector<double> values;
  values.reserve(runs.size());
  for (const CusparseTimes& run : runs) values.push_back(figure(run));
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  return {{"median", median}, {"min", values.front()}, {"max", values.back()}};
}

/// Operands of a case, and spmm's product of them where that is small.
struct Operands {
  CsrMatrix a;
  CsrMatrix b;
  std::uint64_t products = 0;
  std::optional<ProductMatrix> expected;
};

Operands read_operands(const MakeInputs& make_inputs, const CusparseCaseOptions& options) {
  const auto [a_path, b_path] = make_inputs();
  const unsigned num_threads = options.num_threads != 0 ? options.num_threads : usable_cores();
  const BlockMatrix a = read_matrix(a_path);
  const BlockMatrix b = read_matrix(b_path);
  Operands operands{.a = to_csr(a, num_threads), .b = to_csr(b, num_threads), .products = 0, .expected = {}};
  operands.products = count_products(operands.a, operands.b);
  if (operands.products > options.check_products) return operands;
  Options how;
  how.backend = Backend::cpu;
  how.num_threads = num_threads;
  operands.expected = multiply(a, b, how);
  return operands;
}

Json operands_json(const Operands& operands, const CusparseCaseOptions& options) {
  return {{"entries_a", operands.a.num_entries()},
          {"entries_b", operands.b.num_entries()},
          {"products", operands.products},
          {"device", cusparse_device_text(options.product.device)}};
}

/// How a result differs from spmm's; "" where all elements are the same. Sums of spmm end at 2^32 - 1. Floats may
/// differ by the roundings of a row's sums.
std::string difference(const ProductMatrix& expected, bool is_double, std::span<const std::int32_t> offsets,
                       std::span<const std::int32_t> columns, std::span<const double> values) {
  const std::uint64_t m = expected.m;
  std::uint64_t num_elements = 0;
  const double tolerance = is_double ? 0 : 1e-4;
  for (std::size_t b = 0; b < expected.index.size(); ++b) {
    for (std::uint64_t e = 0; e < m * m; ++e) {
      const double sum = expected.block(b)[e];
      if (sum == 0) continue;
      ++num_elements;
      const std::uint64_t row = expected.index[b].i * m + e / m;
      const auto column = static_cast<std::int32_t>(expected.index[b].j * m + e % m);
      const auto begin = columns.begin() + offsets[row];
      const auto end = columns.begin() + offsets[row + 1];
      const auto at = std::find(begin, end, column);
      if (at == end) return text("row ", row, " lacks column ", column);
      const double found = std::min(values[static_cast<std::size_t>(at - columns.begin())], 4294967295.0);
      if (std::abs(found - sum) > tolerance * sum) {
        return text("row ", row, ", column ", column, " is ", found, ", not ", sum);
      }
    }
  }
  if (num_elements == columns.size()) return "";
  return text(columns.size(), " elements, not ", num_elements);
}

Json result_json(const CusparseWay& way, const CusparseResult& result) {
  Json json = {{"kernel", way.name}, {"status", result.refusal.empty() ? "ok" : "refused"}};
  if (!result.refusal.empty()) json["reason"] = result.refusal;
  if (result.runs.empty()) return json;
  json["ms"] = spread_json(result.runs, [](const CusparseTimes& run) { return run.ms(); });
  json["stages_ms"] = {{"estimate", spread_json(result.runs, [](const CusparseTimes& run) { return run.estimate_ms; })},
                       {"compute", spread_json(result.runs, [](const CusparseTimes& run) { return run.compute_ms; })},
                       {"copy", spread_json(result.runs, [](const CusparseTimes& run) { return run.copy_ms; })}};
  json["work_bytes"] = result.work_bytes;
  json["result_bytes"] = result.result_bytes;
  json["entries_c"] = result.num_entries;
  return json;
}

/// What a process does: the ways from `first` on, a line each, until all are done or the device is spoilt.
void run_ways(const MakeInputs& make_inputs, const CusparseCaseOptions& options, std::size_t first,
              const SendLine& send) {
  const Operands operands = read_operands(make_inputs, options);
  send(operands_json(operands, options).dump());
  CusparseRunner runner(operands.a, operands.b, options.product);
  for (std::size_t w = first; w < options.ways.size(); ++w) {
    const CusparseWay& way = options.ways[w];
    std::string wrong;
    OnResult on_result;
    if (operands.expected) {
      on_result = [&](auto offsets, auto columns, auto values) {
        wrong = difference(*operands.expected, way.is_double, offsets, columns, values);
      };
    }
    Json json = result_json(way, runner.run(way, on_result));
    if (operands.expected && json["status"] == "ok") json["same_values"] = wrong.empty();
    if (!wrong.empty()) json["difference"] = wrong;
    send(json.dump());
    if (!runner.is_well()) return;  // another process goes on
  }
}

}  // namespace

Json run_cusparse_case(const MakeInputs& make_inputs, const CusparseCaseOptions& options) {
  Json found = {{"operands", Json::object()}, {"kernels", Json::array()}};
  Json& kernels = found["kernels"];
  while (kernels.size() < options.ways.size()) {
    bool is_ready = false;
    const std::size_t before = kernels.size();
    std::string failure = run_child(
        options.patience_s, [&](const SendLine& send) { run_ways(make_inputs, options, kernels.size(), send); },
        [&](const std::string& line) {
          Json json = Json::parse(line);
          if (is_ready) {
            kernels.push_back(std::move(json));
          } else {
            found["operands"] = std::move(json);
            is_ready = true;
          }
        });
    if (failure.empty() && kernels.size() > before) continue;
    if (failure.empty()) failure = "the process ended without a word";
    // The way at hand goes with its process; without operands all of them.
    do {
      kernels.push_back({{"kernel", options.ways[kernels.size()].name}, {"status", "failed"}, {"reason", failure}});
    } while (!is_ready && kernels.size() < options.ways.size());
  }
  return found;
}

std::string cusparse_head() {
  return table_head({"case", "kernel", "products", "entries of C", "ms", "estimate", "compute", "copy", "work MB",
                     "result MB", "same values"});
}

std::string cusparse_rows(const std::string& name, const Json& found) {
  std::string lines;
  for (const Json& kernel : found.at("kernels")) {
    const std::string way = kernel.at("kernel");
    if (kernel.at("status") != "ok") {
      std::string why = kernel.at("reason");
      std::replace(why.begin(), why.end(), '|', '/');
      lines += table_line({name, way, kernel.at("status").get<std::string>() + ": " + why});
      continue;
    }
    const auto ms = [](const Json& spread) { return short_number(spread.at("median").get<double>()); };
    const auto megabytes = [&](const char* key) { return short_number(kernel.at(key).get<double>() * 1e-6); };
    const Json& stages = kernel.at("stages_ms");
    std::string same = "not looked at";
    if (kernel.contains("same_values")) same = kernel["same_values"].get<bool>() ? "yes" : "NO";
    lines += table_line({name, way, short_number(found.at("operands").at("products").get<double>()),
                         std::to_string(kernel.at("entries_c").get<std::uint64_t>()), ms(kernel.at("ms")),
                         ms(stages.at("estimate")), ms(stages.at("compute")), ms(stages.at("copy")),
                         megabytes("work_bytes"), megabytes("result_bytes"), same});
  }
  return lines;
}

}  // namespace spmm::tools
