// spmm-dense from outside: tables, checks, JSON, refusals and exit codes. The host kernel, so no GPU is needed.
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "unit/tools/tool_support.hpp"

namespace {

using namespace spmm::test;
using Json = nlohmann::ordered_json;

/// Runs spmm-dense with the host kernel.
ProcessResult run_host(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--kernel", "host-naive"});
  return run_tool("dense", arguments);
}

}  // namespace

TEST_CASE("dense: a table for one shape of every type", "[tools][dense]") {
  for (const char* type : {"f32", "i32", "u16"}) {
    const ProcessResult result = run_host({"--shape", "30x40x50", "--type", type});
    INFO(type << ": " << result.out << result.err);
    CHECK(result.exit_code == 0);
    CHECK(has(result.out, "occupancy"));
    CHECK(has(result.out, "30x40x50           host-naive"));
    CHECK(has(result.out, "30x40x50: 30 of 30 rows checked against the host"));
    CHECK(has(result.out, "no difference") == (std::string(type) != "f32"));
  }
}

TEST_CASE("dense: the shapes where a grid from the wrong sides goes wrong, in one command", "[tools][dense]") {
  const ProcessResult result = run_host({"--shape", "128x50x128,50x128x50,1x4096x1,400x1x400,100x10x300,64", "--type",
                                         "i32", "--json", "-", "--runs", "2", "--check", "full"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const Json json = Json::parse(result.out);
  CHECK(json["type"] == "i32");
  CHECK(json["runs"] == 2);
  REQUIRE(json["products"].size() == 6);
  CHECK(json["products"][4]["rows"] == 100);
  CHECK(json["products"][4]["inner"] == 10);
  CHECK(json["products"][4]["cols"] == 300);
  CHECK(json["products"][5]["inner"] == 64);
  for (const Json& product : json["products"]) {
    CHECK(product["rows_checked"] == product["rows"]);
    const Json& kernel = product["results"][0];
    CHECK(kernel["status"] == "ok");
    CHECK(kernel["device"] == "host");
    CHECK(kernel["run_ms"].size() == 2);
    CHECK(kernel["min_ms"] <= kernel["median_ms"]);
    CHECK(kernel["gflops"] > 0);
    CHECK(kernel["check"]["passed"] == true);
    CHECK(kernel["check"]["differences"] == 0);
    CHECK(kernel["check"]["elements"] == product["rows"].get<std::uint64_t>() * product["cols"].get<std::uint64_t>());
    CHECK(kernel["resources"]["occupancy"] == 0);
  }
}

TEST_CASE("dense: a difference beyond the threshold is exit code 1", "[tools][dense]") {
  const ProcessResult strict = run_host({"--shape", "40", "--threshold", "0"});
  CHECK(strict.exit_code == 1);  // float is not double
  CHECK(has(strict.out, "WRONG: "));
  CHECK(has(strict.out, " of 1600 differ, largest "));
  CHECK(run_host({"--shape", "40", "--threshold", "0.5"}).exit_code == 0);
  const ProcessResult unchecked = run_host({"--shape", "40", "--threshold", "0", "--check", "none"});
  CHECK(unchecked.exit_code == 0);
  CHECK(has(unchecked.out, "not checked"));
}

TEST_CASE("dense: wrong command lines are exit code 2 and say what to do", "[tools][dense]") {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{}, "--shape: is missing; give JxKxL"},
      {{"--shape", "0x4x1"}, "--shape: \"0\" is not a whole number"},
      {{"--shape", "3x4"}, "--shape: \"3x4\" is no shape; write JxKxL, like 1024x50x1024, or N"},
      {{"--shape", "3xx4"}, "has an empty part"},
      {{"--shape", "3,,4"}, "has an empty part"},
      {{"--shape", "3xax4"}, "is not a whole number"},
      {{"--shape", "3", "--type", "f64"}, "--type: \"f64\" is not known; give f32, i32 or u16"},
      {{"--shape", "3", "--tile", "wide"}, "--tile: \"wide\" is not known; give 8, 16, 32 or all"},
      {{"--shape", "3", "--runs", "0"}, "--runs: \"0\" is not a whole number"},
      {{"--shape", "3", "--threshold", "-1"}, "--threshold: \"-1\" is no such number"},
      {{"--shape", "3", "--check", "some"}, "--check: \"some\" is not known"},
      {{"a", "--shape", "3"}, "unexpected argument \"a\""},
      {{"--frobnicate"}, "frobnicate"},
  };
  for (const auto& [arguments, message] : wrong) {
    const ProcessResult result = run_host(arguments);
    INFO(message << " in: " << result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK(has(result.err, message));
  }
  const ProcessResult unknown = run_tool("dense", {"--shape", "3", "--kernel", "fastest"});
  CHECK(unknown.exit_code == 2);
  CHECK(has(unknown.err, "this build has no kernel \"fastest\""));
}

TEST_CASE("dense: what does not fit the memory is refused before it is made", "[tools][dense]") {
  const ProcessResult result = run_host({"--shape", "4e6x4e6x4e6"});
  CHECK(result.exit_code == 71);
  CHECK(has(result.err, "shape 4000000x4000000x4000000: needs 192"));
}
