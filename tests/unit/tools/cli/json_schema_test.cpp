// The checker of schemas that other tests rely on, and that each schema uses only what it checks.
#include "support/json_schema.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "unit/tools/tool_support.hpp"

namespace {

using namespace spmm::test;
using PlainJson = nlohmann::json;
using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("a value that breaks a schema is named with its place", "[tools][schema]") {
  const PlainJson schema = PlainJson::parse(R"({
    "type": "object", "required": ["a", "b"],
    "properties": {
      "a": {"type": "integer", "minimum": 0}, "b": {"$ref": "#/$defs/words"}, "c": {"enum": ["x", "y"]}, "d": {"const": 1},
      "e": {"anyOf": [{"type": "string"}, {"type": "number"}]},
      "f": {"type": "object", "additionalProperties": {"type": "boolean"}}
    },
    "$defs": {"words": {"type": "array", "items": {"type": "string"}}}
  })");
  const auto problems = [&](const char* text) { return schema_problems(schema, PlainJson::parse(text)); };
  CHECK(problems(R"({"a": 1, "b": ["x"], "c": "y", "d": 1, "e": 2.5, "f": {"any": true}})").empty());
  CHECK(problems(R"([])") == Lines{"/: is no object: []"});
  CHECK(problems(R"({"a": 1})") == Lines{"/b: is missing"});
  CHECK(problems(R"({"a": -1, "b": []})") == Lines{"/a: is too small"});
  CHECK(problems(R"({"a": 1.5, "b": []})") == Lines{"/a: is no integer: 1.5"});
  CHECK(problems(R"({"a": 1, "b": ["x", 2]})") == Lines{"/b/1: is no string: 2"});
  CHECK(problems(R"({"a": 1, "b": [], "new": 0})") == Lines{"/new: is not known"});
  CHECK(problems(R"({"a": 1, "b": [], "c": "z"})") == Lines{"/c: is none of [\"x\",\"y\"]"});
  CHECK(problems(R"({"a": 1, "b": [], "d": 2})") == Lines{"/d: is not 1"});
  CHECK(problems(R"({"a": 1, "b": [], "e": true})").size() == 1);
  CHECK(problems(R"({"a": 1, "b": [], "f": {"any": 1}})") == Lines{"/f/any: is no boolean: 1"});
  const PlainJson unknown = PlainJson::parse(R"({"type": "string", "pattern": "x"})");
  CHECK(schema_problems(unknown, "x").size() == 1);
  CHECK_THROWS(parse_report("plan", R"({"schema": 1})"));
}

TEST_CASE("every schema of data/schemas is one, and refuses an empty object", "[tools][schema]") {
  std::size_t num_schemas = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SPMM_SOURCE_DIR "/data/schemas")) {
    std::string name = entry.path().filename().string();
    INFO(name);
    const std::string end = ".schema.json";
    REQUIRE(name.size() > end.size());
    name.resize(name.size() - end.size());
    const PlainJson schema = read_schema(name);
    CHECK(content_of(entry.path().string()).find("\"additionalProperties\": false") == std::string::npos);
    CHECK(schema_problems(schema, PlainJson::object()).size() == schema["required"].size());
    ++num_schemas;
  }
  CHECK(num_schemas == 5);
}

TEST_CASE("published measurements are as their programs write them", "[tools][schema]") {
  for (const auto& entry : std::filesystem::directory_iterator(SPMM_SOURCE_DIR "/data/measurements")) {
    INFO(entry.path().string());
    const std::string text = content_of(entry.path().string());
    const PlainJson json = PlainJson::parse(text);
    const std::string program = json.at("program");
    if (program == "spmm-bench") CHECK_NOTHROW(parse_report("bench", text));
    if (program == "scipy_bench.py") CHECK_NOTHROW(parse_report("scipy", text));
  }
}
