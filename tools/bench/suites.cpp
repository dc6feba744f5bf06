// Reads the cases of data/suites.json.
#include "tools/bench/bench.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"

namespace spmm::tools {
namespace {

/// Reads one case. Errors: FormatError says which case and field is wrong.
BenchCase read_case(const Json& json, std::string where) {
  static const std::set<std::string> kKnown = {"name",         "n",         "m",     "k",         "pattern",
                                               "memory_share", "bandwidth", "group", "max_value", "compare_with"};
  const auto fail = [&](const std::string& problem) {
    throw FormatError(where, problem, "write cases as data/suites.json does");
  };
  const auto string = [&](const char* key, const char* otherwise) -> std::string {
    if (!json.contains(key)) return otherwise;
    if (!json[key].is_string()) fail(text(key, " is no text"));
    return json[key];
  };
  const auto number = [&](const char* key, std::uint64_t low, std::uint64_t high) {
    const Json value = json.value(key, Json());
    if (!value.is_number_unsigned() || value < low || value > high) {
      fail(text(key, " is ", value.dump(), ", expected a whole number from ", low, " to ", high));
    }
    return value.get<std::uint32_t>();
  };
  if (!json.is_object()) fail("is no object");
  BenchCase out;
  out.name = string("name", "");
  if (out.name.empty()) fail("has no name");
  where += ", case " + out.name;
  out.header = {
      .n = number("n", 1, UINT32_MAX), .m = number("m", 1, kMaxBlockDim), .num_blocks = number("k", 0, UINT32_MAX)};
  validate_header(out.header, where);
  out.pattern = string("pattern", "uniform");
  const std::vector<std::string> patterns = pattern_names();
  if (std::find(patterns.begin(), patterns.end(), out.pattern) == patterns.end()) {
    fail("unknown pattern \"" + out.pattern + "\"");
  }
  if (json.contains("bandwidth")) out.bandwidth = number("bandwidth", 0, UINT32_MAX);
  if (json.contains("group")) out.group = number("group", 1, UINT32_MAX);
  if (json.contains("max_value")) out.max_value = number("max_value", 0, UINT16_MAX);
  if (json.contains("memory_share")) {
    const Json& share = json["memory_share"];
    if (!share.is_number() || share <= 0) fail("memory_share is no number above 0");
    out.memory_share = share;
  }
  string("compare_with", "");  // for readers of the measurement: a case of about the same work
  for (const auto& [key, value] : json.items()) {
    if (!kKnown.contains(key)) fail("unknown key \"" + key + "\"");
  }
  Json fields = {{"pattern", out.pattern}, {"max_value", out.max_value}};
  fields.update(json);
  out.json = fields.dump();
  return out;
}

}  // namespace

double BenchCase::block_density() const {
  const double side = header.blocks_per_side();
  return header.num_blocks / (side * side);
}

std::vector<BenchSuite> load_suites(const std::filesystem::path& path) {
  const std::string where = path.string();
  const Json json = read_json(where);
  if (!json.is_object() || !json.contains("suites") || !json["suites"].is_object()) {
    throw FormatError(where, "has no object \"suites\"", "write suites as data/suites.json does");
  }
  std::vector<BenchSuite> suites;
  std::set<std::string> names;
  for (const auto& [name, cases] : json["suites"].items()) {
    BenchSuite suite{.name = name, .cases = {}};
    for (const Json& one : cases) {
      suite.cases.push_back(read_case(one, text(where, ", suite ", name)));
      const std::string& added = suite.cases.back().name;
      if (names.insert(added).second) continue;
      throw FormatError(text(where, ", suite ", name), "the case " + added + " is there twice", "give it another name");
    }
    suites.push_back(std::move(suite));
  }
  return suites;
}

std::vector<BenchCase> select_cases(const std::vector<BenchSuite>& suites, const std::vector<std::string>& suite_names,
                                    const std::vector<std::string>& case_names) {
  std::vector<BenchCase> chosen;
  std::set<std::string> taken;
  const auto add = [&](const BenchCase& one) {
    if (taken.insert(one.name).second) chosen.push_back(one);
  };
  for (const std::string& name : suite_names) {
    std::string known;
    bool found = false;
    for (const BenchSuite& suite : suites) {
      known += (known.empty() ? "" : ", ") + suite.name;
      if (suite.name != name) continue;
      found = true;
      for (const BenchCase& one : suite.cases) add(one);
    }
    if (!found) throw UsageError("--suite", "unknown suite \"" + name + "\"", "give one of: " + known);
  }
  for (const std::string& name : case_names) {
    bool found = false;
    for (const BenchSuite& suite : suites) {
      for (const BenchCase& one : suite.cases) {
        if (one.name == name) add(one);
        found = found || one.name == name;
      }
    }
    if (!found) throw UsageError("--case", "unknown case \"" + name + "\"", "see spmm-bench --list");
  }
  return chosen;
}

std::string suites_text(const std::vector<BenchSuite>& suites) {
  std::string lines;
  for (const BenchSuite& suite : suites) {
    lines += printable(suite.name) + "\n";
    for (const BenchCase& one : suite.cases) {
      lines += text("  ", printable(one.name), ": n ", one.header.n, ", m ", one.header.m, ", k ",
                    one.header.num_blocks, ", ", one.pattern, ", elements to ", one.max_value, "\n");
    }
  }
  return lines;
}

}  // namespace spmm::tools
