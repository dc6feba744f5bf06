// tables.py on a made-up checkout: tables are written from measurements, and a table that differs from them is found.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "support/catch.hpp"
#include "test_paths.hpp"
#include "unit/tools/bench/support.hpp"
#include "unit/tools/tool_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
using Json = nlohmann::ordered_json;

/// A checkout with one document, which publishes the table kernels-cases, and the measurement behind it.
class Checkout {
 public:
  Checkout() {
    std::filesystem::create_directories(folder_.file("data/measurements"));
    std::filesystem::create_directories(folder_.file("kernels"));
    const MatrixHeader header{.n = 400, .m = 4, .num_blocks = 100};
    tools::KernelResult kernel = made_up_kernel("auto", header, 12.5, 5'000'000);
    measurement_ = made_up_measurement({made_up_case("S1", header, {kernel})});
    measurement_["device"] = "Made-up 9000";
    write_measurement(measurement_);
    write_document(
        "# Kernels\n\n<!-- table: kernels-cases -->\n<!-- end -->\n\n<!-- table: sources -->\n<!-- end -->\n\nThe "
        "end.\n");
  }

  [[nodiscard]] Json measurement() const { return measurement_; }
  void write_measurement(const Json& json) const {
    std::ofstream(folder_.file("data/measurements/gpu-speed.json")) << json.dump();
  }
  void write_document(const std::string& content) const { std::ofstream(folder_.file("kernels/README.md")) << content; }
  [[nodiscard]] std::string document() const { return content_of(folder_.file("kernels/README.md")); }
  [[nodiscard]] ProcessResult run(std::vector<std::string> arguments = {}) const {
    arguments.insert(arguments.begin(), SPMM_SOURCE_DIR "/tools/scripts/tables.py");
    arguments.insert(arguments.end(), {"--root", folder_.path()});
    return run_python(arguments);
  }

 private:
  TemporaryFolder folder_;
  Json measurement_;
};

/// The first `from` of a text replaced.
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("tables: written from the measurement, and a changed digit is found on either side", "[tools][tables]") {
  if (!has_python("pass")) {
    WARN("python3 is missing: tables.py is not tested");
    return;
  }
  const Checkout checkout;
  CHECK(checkout.run({"--check"}).exit_code == 1);
  const ProcessResult written = checkout.run();
  INFO(written.err);
  REQUIRE(written.exit_code == 0);
  const std::string text = checkout.document();
  check_has(text, "| S1 | auto | 12.5 | – | – | 12.5 | – | 0.4 | – |\n");
  check_has(text, "Measured: [gpu-speed](../data/measurements/gpu-speed.json) (Made-up 9000, ");
  check_has(text, "\n<!-- end -->\n\nThe end.\n");
  CHECK(checkout.run({"--check"}).exit_code == 0);
  CHECK(checkout.run().out.empty());

  checkout.write_document(replaced(text, "12.5", "12.4"));
  const ProcessResult table = checkout.run({"--check"});
  CHECK(table.exit_code == 1);
  check_has(table.out, "-| S1 | auto | 12.4 |");
  check_has(table.out, "+| S1 | auto | 12.5 |");
  checkout.write_document(text);
  Json slower = checkout.measurement();
  slower["cases"][0]["kernels"][0]["device_ms"]["median"] = 12.6;
  checkout.write_measurement(slower);
  CHECK(checkout.run({"--check"}).exit_code == 1);
}

TEST_CASE("tables: what cannot be published is refused", "[tools][tables]") {
  if (!has_python("pass")) return;
  const Checkout checkout;
  const auto refusal = [&](const Json& measurement) {
    checkout.write_measurement(measurement);
    const ProcessResult result = checkout.run();
    CHECK(result.exit_code == 1);
    return result.err;
  };
  Json wrong = checkout.measurement();
  wrong["cases"][0]["kernels"][0]["validated"] = false;
  check_has(refusal(wrong), "auto on S1 has a wrong result");
  Json lacking = checkout.measurement();
  lacking.erase("revision");
  check_has(refusal(lacking), "lacks revision");
  Json later = checkout.measurement();
  later["schema"] = 2;
  check_has(refusal(later), "schema 2");
  checkout.write_measurement(checkout.measurement());
  checkout.write_document("<!-- table: speeed -->\n<!-- end -->\n");
  check_has(checkout.run({"--check"}).err, "README.md:1: <!-- table: speeed -->: no such table");
  checkout.write_document("<!-- table: kernels-cases -->\n");
  check_has(checkout.run({"--check"}).err, "lacks its <!-- end -->");
}
