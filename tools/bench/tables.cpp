// Tables over all cases of a measurement, made from its JSON.
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "tools/bench/report.hpp"

namespace spmm::tools {
namespace {

/// A prediction holds within this factor.
constexpr double kPredictionFactor = 1.5;

double median(const Json& kernel, const char* figure) {
  return kernel.at(figure).at("median").get<double>();
}

/// The number behind a key, or an empty cell.
std::string number_cell(const Json& object, const char* key) {
  return object.contains(key) ? short_number(object.at(key).get<double>()) : "";
}

bool is_off(double ratio) {
  return std::abs(std::log(ratio)) > std::log(kPredictionFactor);
}

/// Calls row(case, kernel) for every kernel that ran, and puts the head above the lines it returns.
std::string table_of(const Json& measurement, const std::vector<std::string>& head,
                     const std::function<std::string(const Json&, const Json&)>& row) {
  std::string lines;
  for (const Json& one : measurement.at("cases")) {
    for (const Json& kernel : one.at("kernels")) {
      if (kernel.at("status") == "ok") lines += row(one, kernel);
    }
  }
  return lines.empty() ? "" : table_head(head) + lines;
}

const Json* find_named(const Json& all, const char* key, const Json& name) {
  for (const Json& one : all) {
    if (one.at(key) == name) return &one;
  }
  return nullptr;
}

/// A figure of a kernel per multiply-add; 0 if there are none.
double per_term(const Json& kernel, const char* figure) {
  const double terms = kernel.at("terms").get<double>();
  return terms > 0 ? median(kernel, figure) / terms : 0;
}

}  // namespace

std::string short_number(double value) {
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), value >= 1000 ? "%.0f" : "%.3g", value);
  return out.data();
}

std::string table_line(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const std::string& cell : cells) line += " " + cell + " |";
  return line + "\n";
}

std::string table_head(const std::vector<std::string>& names) {
  return table_line(names) + table_line(std::vector<std::string>(names.size(), "---"));
}

void add_comparisons(Json& measurement) {
  for (Json& one : measurement.at("cases")) {
    if (!one.contains("compare_with")) continue;
    const Json* const partner = find_named(measurement.at("cases"), "name", one.at("compare_with"));
    if (partner == nullptr) continue;
    for (Json& kernel : one.at("kernels")) {
      const Json* const other = find_named(partner->at("kernels"), "kernel", kernel.at("kernel"));
      if (other == nullptr || kernel.at("status") != "ok" || other->at("status") != "ok") continue;
      Json compared = {{"with", one.at("compare_with")}};
      for (const char* figure : {"device_ms", "multiply_ms"}) {
        const double base = per_term(*other, figure);
        if (base > 0) compared[figure] = per_term(kernel, figure) / base;
      }
      kernel["compared"] = std::move(compared);
    }
  }
}

std::string prediction_table(const Json& measurement) {
  const std::vector<std::string> head = {
      "case", "kernel", "predicted ms", "device ms", "device / predicted", "off by more than 1.5"};
  return table_of(measurement, head, [](const Json& one, const Json& kernel) -> std::string {
    if (!kernel.contains("device_over_predicted")) return "";
    return table_line({one.at("name").get<std::string>(), kernel.at("kernel").get<std::string>(),
                       number_cell(kernel, "predicted_ms"), short_number(median(kernel, "device_ms")),
                       number_cell(kernel, "device_over_predicted"),
                       is_off(kernel.at("device_over_predicted").get<double>()) ? "yes" : ""});
  });
}

std::string limits_table(const Json& measurement) {
  const std::vector<std::string> head = {"case",
                                         "kernel",
                                         "limit / operands",
                                         "total s",
                                         "over no limit",
                                         "over the one before",
                                         "bytes read / operands",
                                         "predicted / total"};
  double before = 0;
  return table_of(measurement, head, [&](const Json& one, const Json& kernel) -> std::string {
    const double total = median(kernel, "total_s");
    const double last = std::exchange(before, total);
    if (!one.contains("memory_share")) return "";
    const Json* const partner = find_named(measurement.at("cases"), "name", one.value("compare_with", ""));
    const Json* const free = partner ? find_named(partner->at("kernels"), "kernel", kernel.at("kernel")) : nullptr;
    const bool is_known = free != nullptr && free->at("status") == "ok";
    return table_line({one.at("name").get<std::string>(), kernel.at("kernel").get<std::string>(),
                       number_cell(one, "memory_share"), short_number(total),
                       is_known ? short_number(total / median(*free, "total_s")) : "", short_number(total / last),
                       short_number(kernel.at("bytes_read").get<double>() / kernel.at("bytes_in").get<double>()),
                       short_number(kernel.at("predicted_s").get<double>() / total)});
  });
}

std::string comparison_table(const Json& measurement) {
  const std::vector<std::string> head = {"case",      "kernel",        "compared with",
                                         "device ms", "ratio, device", "ratio, multiply"};
  return table_of(measurement, head, [](const Json& one, const Json& kernel) -> std::string {
    if (!kernel.contains("compared")) return "";
    const Json& compared = kernel.at("compared");
    return table_line({one.at("name").get<std::string>(), kernel.at("kernel").get<std::string>(),
                       compared.at("with").get<std::string>(), short_number(median(kernel, "device_ms")),
                       number_cell(compared, "device_ms"), number_cell(compared, "multiply_ms")});
  });
}

std::string process_table(const Json& measurement) {
  const std::vector<std::string> head = {
      "case", "kernel", "process s", "within this process s", "published s", "published / process"};
  return table_of(measurement, head, [](const Json& one, const Json& kernel) -> std::string {
    if (!kernel.contains("e2e_s") && !kernel.contains("e2e_failure")) return "";
    const std::string process = kernel.contains("e2e_s") ? short_number(median(kernel, "e2e_s")) : "failed";
    return table_line({one.at("name").get<std::string>(), kernel.at("kernel").get<std::string>(), process,
                       number_cell(kernel, "file_total_s"), number_cell(one, "published_s"),
                       number_cell(kernel, "published_over_e2e")});
  });
}

}  // namespace spmm::tools
