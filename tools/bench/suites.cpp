// Reads the cases of data/suites.json.
#include "tools/bench/suites.hpp"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"

namespace spmm::tools {
namespace {

constexpr std::uint32_t kDefaultMaxValue = 2047;

/// Reads the fields of one case and says which one is wrong.
class CaseReader {
 public:
  CaseReader(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) fail("is no object");
  }

  BenchCase read() {
    BenchCase out;
    out.name = string("name", "");
    if (out.name.empty()) fail("has no name");
    where_ += ", case " + out.name;
    out.header = {
        .n = number("n", 1, UINT32_MAX), .m = number("m", 1, kMaxBlockDim), .num_blocks = number("k", 0, UINT32_MAX)};
    validate_header(out.header, where_);
    out.pattern = pattern();
    if (json_.contains("bandwidth")) out.bandwidth = number("bandwidth", 0, UINT32_MAX);
    if (json_.contains("group")) out.group = number("group", 1, UINT32_MAX);
    out.max_value = json_.contains("max_value") ? number("max_value", 0, UINT16_MAX) : kDefaultMaxValue;
    out.memory_share = positive("memory_share");
    if (json_.contains("compare_with")) out.compare_with = string("compare_with", "");
    refuse_other_keys();
    return out;
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw FormatError(where_, problem, "write cases as data/suites.json does");
  }

  std::string string(const char* key, const char* otherwise) const {
    if (!json_.contains(key)) return otherwise;
    if (!json_[key].is_string()) fail(text(key, " is no text"));
    return json_[key].get<std::string>();
  }

  [[nodiscard]] PatternKind pattern() const {
    const std::string name = string("pattern", "uniform");
    const auto& names = pattern_names();
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) fail("unknown pattern \"" + name + "\"");
    return static_cast<PatternKind>(found - names.begin());
  }

  [[nodiscard]] std::optional<double> positive(const char* key) const {
    if (!json_.contains(key)) return std::nullopt;
    if (!json_[key].is_number() || json_[key].get<double>() <= 0) fail(text(key, " is no number above 0"));
    return json_[key].get<double>();
  }

  std::uint32_t number(const char* key, std::uint64_t low, std::uint64_t high) const {
    if (!json_.contains(key)) fail(text(key, " is missing"));
    if (json_[key].is_number_unsigned()) {
      const auto value = json_[key].get<std::uint64_t>();
      if (value >= low && value <= high) return static_cast<std::uint32_t>(value);
    }
    fail(text(key, " is ", json_[key].dump(), ", expected a whole number from ", low, " to ", high));
  }

  void refuse_other_keys() const {
    static const std::set<std::string> kKnown = {"name",         "n",         "m",     "k",         "pattern",
                                                 "memory_share", "bandwidth", "group", "max_value", "compare_with"};
    for (const auto& [key, value] : json_.items()) {
      if (!kKnown.contains(key)) fail("unknown key \"" + key + "\"");
    }
  }

  const Json& json_;
  std::string where_;
};

}  // namespace

double BenchCase::block_density() const {
  const double side = header.blocks_per_side();
  return header.num_blocks / (side * side);
}

PatternOptions BenchCase::pattern_options(std::uint64_t seed) const {
  return {.bandwidth = bandwidth, .group = group, .seed = seed};
}

Json read_json(const std::filesystem::path& path) {
  std::ifstream in(path);
  if (!in) throw InputError(path.string(), "cannot be opened", "check the path and its permissions");
  constexpr int kMaxDepth = 64;  // printing what is nested deeper would overflow the stack
  const auto check_depth = [&](int depth, Json::parse_event_t, const Json&) {
    if (depth <= kMaxDepth) return true;
    throw FormatError(path.string(), text("is nested more than ", kMaxDepth, " levels deep"),
                      "name a file of the documented form");
  };
  try {
    return Json::parse(in, check_depth);
  } catch (const Json::exception& e) {
    throw FormatError(path.string(), text("is no JSON (", e.what(), ")"), "name a file of the documented form");
  }
}

std::vector<BenchSuite> load_suites(const std::filesystem::path& path) {
  const Json json = read_json(path);
  const std::string where = path.string();
  if (!json.is_object() || !json.contains("suites") || !json["suites"].is_object()) {
    throw FormatError(where, "has no object \"suites\"", "write suites as data/suites.json does");
  }
  std::vector<BenchSuite> suites;
  std::set<std::string> names;
  for (const auto& [name, cases] : json["suites"].items()) {
    BenchSuite suite{.name = name, .cases = {}};
    for (const Json& one : cases) {
      suite.cases.push_back(CaseReader(one, text(where, ", suite ", name)).read());
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
        if (one.name != name) continue;
        found = true;
        add(one);
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
                    one.header.num_blocks, ", ", pattern_name(one.pattern), ", elements to ", one.max_value, "\n");
    }
  }
  return lines;
}

Json case_json(const BenchCase& one) {
  Json json = {{"name", one.name},
               {"n", one.header.n},
               {"m", one.header.m},
               {"k", one.header.num_blocks},
               {"pattern", pattern_name(one.pattern)},
               {"max_value", one.max_value}};
  if (one.bandwidth) json["bandwidth"] = *one.bandwidth;
  if (one.group) json["group"] = *one.group;
  if (one.memory_share) json["memory_share"] = *one.memory_share;
  if (one.compare_with) json["compare_with"] = *one.compare_with;
  return json;
}

}  // namespace spmm::tools
