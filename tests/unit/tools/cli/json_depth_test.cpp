// JSON that is nested so deep that printing a part of it would overflow the stack.
#include <fstream>
#include <string>

#include "spmm/error.hpp"
#include "support/catch.hpp"
#include "support/process.hpp"
#include "tools/bench/suites.hpp"

namespace {

using namespace spmm;

std::string message_for(std::size_t depth) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("suites.json");
  const std::string nested = std::string(depth, '[') + std::string(depth, ']');
  std::ofstream(path) << R"({"suites": {"S": [{"name": "x", "n": )" << nested << "}]}}";
  try {
    tools::load_suites(path);
  } catch (const FormatError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("JSON nested too deep is rejected") {
  CHECK(message_for(3).find("n is [[[]]], expected a whole number") != std::string::npos);
  CHECK(message_for(100).find("is nested more than 64 levels deep") != std::string::npos);
  CHECK(message_for(1'000'000).find("is nested more than 64 levels deep") != std::string::npos);
}
