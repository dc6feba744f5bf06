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

}  // namespace

TEST_CASE("every schema of data/schemas is one, and refuses an empty object", "[tools][schema]") {
  std::size_t num_schemas = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SPMM_SOURCE_DIR "/data/schemas")) {
    std::string name = entry.path().filename().string();
    INFO(name);
    const std::string end = ".schema.json";
    REQUIRE(name.size() > end.size());
    name.resize(name.size() - end.size());
    const PlainJson schema = read_schema(name);
    CHECK(bytes_of(entry.path().string()).find("\"additionalProperties\": false") == std::string::npos);
    CHECK(schema_problems(schema, PlainJson::object()).size() == schema["required"].size());
    ++num_schemas;
  }
  CHECK(num_schemas == 5);
}

TEST_CASE("published measurements are as their programs write them", "[tools][schema]") {
  for (const auto& entry : std::filesystem::directory_iterator(SPMM_SOURCE_DIR "/data/measurements")) {
    INFO(entry.path().string());
    const std::string text = bytes_of(entry.path().string());
    const PlainJson json = PlainJson::parse(text);
    const std::string program = json.at("program");
    if (program == "spmm-bench") CHECK_NOTHROW(parse_report("bench", text));
    if (program == "scipy_bench.py") CHECK_NOTHROW(parse_report("scipy", text));
  }
}
