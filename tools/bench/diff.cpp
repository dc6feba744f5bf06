// The comparison of two measurements.
#include <array>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "spmm/error.hpp"
#include "tools/bench/report.hpp"

namespace spmm::tools {
namespace {

constexpr std::array<const char*, 3> kFigures = {"multiply_ms", "device_ms", "total_s"};

/// Entries of "kernels" by the names of case and kernel.
using Entries = std::map<std::pair<std::string, std::string>, const Json*>;

Entries entries_of(const Json& measurement) {
  Entries entries;
  for (const Json& one : measurement.at("cases")) {
    for (const Json& kernel : one.at("kernels")) {
      entries[{printable(one.at("name").get<std::string>()), printable(kernel.at("kernel").get<std::string>())}] =
          &kernel;
    }
  }
  return entries;
}

bool is_good(const Json& kernel) {
  return kernel.at("status") == "ok" && kernel.at("validated") == true;
}

/// "12.3 -> 14.5 (1.18)", and whether that is slower beyond the spread of both.
std::string figure_text(const Json& before, const Json& after, double tolerance, bool& slower) {
  const double old_median = before.at("median").get<double>();
  const double new_median = after.at("median").get<double>();
  slower = new_median > tolerance * old_median && after.at("min").get<double>() > before.at("max").get<double>();
  std::array<char, 96> out{};
  if (old_median > 0) {
    std::snprintf(out.data(), out.size(), "%.3f (%.4g -> %.4g)%s", new_median / old_median, old_median, new_median,
                  slower ? " SLOWER" : "");
  } else {
    std::snprintf(out.data(), out.size(), "- (%.4g -> %.4g)%s", old_median, new_median, slower ? " SLOWER" : "");
  }
  return out.data();
}

/// One line about a kernel of a case that both files have.
std::string compare_entry(const std::string& name, const Json& before, const Json& after, double tolerance,
                          bool& worse) {
  if (!is_good(before) || !is_good(after)) {
    worse = worse || (is_good(before) && !is_good(after));
    const auto state = [](const Json& kernel) {
      const auto status = kernel.at("status").get<std::string>();
      return status == "ok" && !is_good(kernel) ? std::string("WRONG BYTES") : status;
    };
    return text("| ", name, " | ", state(before), " -> ", state(after), " | | |\n");
  }
  std::string line = "| " + name + " |";
  for (const char* figure : kFigures) {
    bool slower = false;
    line += " " + figure_text(before.at(figure), after.at(figure), tolerance, slower) + " |";
    worse = worse || slower;
  }
  return line + "\n";
}

}  // namespace

Diff diff_results(const Json& before, const Json& after, double tolerance) {
  Diff diff{.table =
                "| case | kernel | multiply_ms new / old | device_ms new / old | total_s new / old |\n"
                "| --- | --- | --- | --- | --- |\n"};
  bool any = false;
  try {
    const Entries old_entries = entries_of(before);
    const Entries new_entries = entries_of(after);
    for (const auto& [key, old_entry] : old_entries) {
      const auto found = new_entries.find(key);
      const std::string name = key.first + " | " + key.second;
      if (found == new_entries.end()) {
        diff.table += "| " + name + " | only in the old file | | |\n";
        continue;
      }
      any = true;
      diff.table += compare_entry(name, *old_entry, *found->second, tolerance, diff.worse);
    }
    for (const auto& [key, entry] : new_entries) {
      if (old_entries.contains(key)) continue;
      diff.table += "| " + key.first + " | " + key.second + " | only in the new file | | |\n";
    }
  } catch (const Json::exception& e) {
    throw FormatError("--diff", text("a file lacks what spmm-bench writes (", e.what(), ")"),
                      "name two files that spmm-bench --json wrote");
  }
  if (!any) throw UsageError("--diff", "the files have no case and kernel in common", "measure the same cases twice");
  return diff;
}

}  // namespace spmm::tools
