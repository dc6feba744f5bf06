#include "support/json_schema.hpp"

#include <algorithm>
#include <fstream>
#include <set>
#include <stdexcept>

#include "test_paths.hpp"

namespace spmm::test {
namespace {

using Json = nlohmann::json;

class Checker {
 public:
  explicit Checker(const Json& root) : root_(root) {}

  void check(const Json& schema, const Json& value, const std::string& at) {
    check_keywords(schema, at);
    if (schema.contains("$ref")) return check(target(schema["$ref"].get<std::string>()), value, at);
    if (schema.contains("anyOf")) return check_any(schema["anyOf"], value, at);
    if (schema.contains("type") && !has_type(schema["type"].get<std::string>(), value)) {
      return add(at, "is no " + schema["type"].get<std::string>() + ": " + value.dump());
    }
    if (schema.contains("const") && value != schema["const"]) add(at, "is not " + schema["const"].dump());
    if (schema.contains("enum")) {
      const Json& known = schema["enum"];
      if (std::find(known.begin(), known.end(), value) == known.end()) add(at, "is none of " + known.dump());
    }
    if (schema.contains("minimum") && value.is_number() && value < schema["minimum"]) add(at, "is too small");
    if (value.is_object()) check_members(schema, value, at);
    if (value.is_array() && schema.contains("items")) {
      for (std::size_t x = 0; x < value.size(); ++x) check(schema["items"], value[x], at + "/" + std::to_string(x));
    }
  }

  std::vector<std::string> problems;

 private:
  void add(const std::string& at, const std::string& problem) {
    problems.push_back((at.empty() ? "/" : at) + ": " + problem);
  }

  void check_keywords(const Json& schema, const std::string& at) {
    static const std::set<std::string> kKnown = {
        "$schema",    "title",    "description",          "$defs", "$ref",   "anyOf", "type", "const", "enum",
        "properties", "required", "additionalProperties", "items", "minimum"};
    for (const auto& [key, ignored] : schema.items()) {
      if (!kKnown.contains(key)) add(at, "the schema has the keyword " + key + ", which is not checked");
    }
  }

  [[nodiscard]] const Json& target(const std::string& reference) const {
    const std::string start = "#/$defs/";
    if (reference.rfind(start, 0) != 0) throw std::runtime_error("a schema refers to " + reference);
    return root_.at("$defs").at(reference.substr(start.size()));
  }

  void check_any(const Json& schemas, const Json& value, const std::string& at) {
    std::vector<std::string> fewest;
    for (const Json& one : schemas) {
      Checker checker(root_);
      checker.check(one, value, at);
      if (checker.problems.empty()) return;
      if (fewest.empty() || checker.problems.size() < fewest.size()) fewest = checker.problems;
    }
    problems.insert(problems.end(), fewest.begin(), fewest.end());
  }

  void check_members(const Json& schema, const Json& value, const std::string& at) {
    const Json none = Json::object();
    const Json& known = schema.contains("properties") ? schema["properties"] : none;
    for (const auto& [key, member] : value.items()) {
      const std::string place = at + "/" + key;
      if (known.contains(key)) {
        check(known[key], member, place);
      } else if (schema.contains("additionalProperties")) {
        const Json& others = schema["additionalProperties"];
        if (others.is_object()) check(others, member, place);
      } else if (schema.contains("properties")) {
        add(place, "is not known");
      }
    }
    if (!schema.contains("required")) return;
    for (const Json& key : schema["required"]) {
      if (!value.contains(key.get<std::string>())) add(at + "/" + key.get<std::string>(), "is missing");
    }
  }

  static bool has_type(const std::string& type, const Json& value) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_boolean();
    if (type == "integer") return value.is_number_integer();
    if (type == "number") return value.is_number();
    throw std::runtime_error("a schema has the type " + type);
  }

  const Json& root_;
};

}  // namespace

std::vector<std::string> schema_problems(const Json& schema, const Json& value) {
  Checker checker(schema);
  checker.check(schema, value, "");
  return checker.problems;
}

Json read_schema(const std::string& name) {
  std::ifstream file(SPMM_SOURCE_DIR "/data/schemas/" + name + ".schema.json");
  return Json::parse(file);
}

Json parse_report(const std::string& schema, const std::string& text) {
  Json report = Json::parse(text);
  std::string lines;
  for (const std::string& problem : schema_problems(read_schema(schema), report)) lines += "\n" + problem;
  if (!lines.empty()) throw std::runtime_error("a report breaks data/schemas/" + schema + ".schema.json:" + lines);
  return report;
}

}  // namespace spmm::test
