// The report file: written as outputs are.
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/exit_codes.hpp"
#include "cli/workplace.hpp"
#include "report/json.hpp"
#include "report/text.hpp"
#include "support/catch.hpp"

namespace {

using namespace spmm::test;
using namespace spmm::cli;
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kJson = "{\n  \"x\": 1\n}";

}  // namespace

TEST_CASE("the report follows a link that is given, and none that is planted under a name that could be guessed") {
  const Workplace workplace;
  const std::string guess = "r.json.tmp-" + std::to_string(getpid());
  fs::create_symlink("old.bin", guess);
  write_bytes("real.json", "old");
  fs::create_symlink("real.json", "r.json");
  write_json_text("r.json", kJson);
  CHECK(bytes_of("old.bin") == kOldContent);
  CHECK(fs::is_symlink(guess));
  CHECK(fs::is_symlink("r.json"));
  CHECK(bytes_of("real.json") == std::string(kJson) + "\n");
}

TEST_CASE("a report that fails says that the product is complete only where there is one") {
  const Workplace workplace;
  const ProcessResult plan = spmm_command({"--plan", "--report", "/dev/full", "a.bin", "b.bin"});
  INFO(plan.err);
  CHECK(plan.exit_code == kCannotCreate);
  CHECK_FALSE(has(plan.err, "product"));
  const ProcessResult product = spmm_command({"--report", "/dev/full", "a.bin", "b.bin", "c.bin"});
  INFO(product.err);
  CHECK(product.exit_code == kCannotCreate);
  CHECK(has(product.err, "the product is complete"));
  CHECK(fs::exists("c.bin"));
  CHECK(spmm_command({"--report", "/dev/null", "a.bin", "b.bin", "c.bin"}).exit_code == kOk);
}

TEST_CASE("devices that share a product and their shares are in the plan and in the report") {
  spmm::Report report;
  report.a = report.b = report.c = {.n = 8, .m = 8, .num_blocks = 1};
  report.plan.backend = spmm::Backend::cuda;
  report.plan.devices = {{.number = 1, .name = "Made-up 9000", .share = 1}};
  CHECK_FALSE(has(plan_text(report.a, report.b, report.plan), "devices:"));
  CHECK_FALSE(Json::parse(report_json(report, {}))["devices"][0].contains("pairs"));

  report.plan.devices[0].share = 0.75;
  report.plan.devices[0].pairs = 3;
  report.plan.devices.push_back(
      {.number = 4, .name = "Made-up 8000", .share = 0.25, .pairs = 1, .num_panels = 2, .multiply_s = 0.5});
  CHECK(has(plan_text(report.a, report.b, report.plan),
            "devices: 1 Made-up 9000 75 %, 4 Made-up 8000 25 % of the pairs"));
  const Json json = Json::parse(report_json(report, {}));
  CHECK(json["devices"].size() == 2);
  CHECK(json["devices"][0]["number"] == 1);
  CHECK(json["devices"][0]["pairs"] == 3);
  CHECK(json["devices"][1]["share"] == 0.25);
  CHECK(json["devices"][1]["panels"] == 2);
  CHECK(json["devices"][1]["multiply_s"] == 0.5);
  CHECK(json["plan"]["devices"][1]["name"] == "Made-up 8000");
}
