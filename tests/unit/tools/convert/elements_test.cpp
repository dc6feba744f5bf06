// spmm-convert: the rule for elements.
#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "spmm/error.hpp"
#include "support/catch.hpp"
#include "test_paths.hpp"
#include "tools/convert/convert.hpp"

namespace {

using namespace spmm;
using namespace spmm::tools;

/// A line of elements.tsv.
struct RuleCase {
  std::vector<double> values;
  ElementRule rule;
  std::string result;  ///< the element, or a part of the message
  std::string change;
};

std::vector<RuleCase> rule_cases() {
  std::vector<RuleCase> cases;
  std::ifstream in(SPMM_SOURCE_DIR "/tests/unit/tools/convert/elements.tsv");
  for (std::string line; std::getline(in, line);) {
    if (line[0] == '#') continue;
    std::istringstream fields(line);
    std::string values, scale, round, saturate;
    RuleCase one;
    for (std::string* field : {&values, &scale, &round, &saturate, &one.result, &one.change}) {
      std::getline(fields, *field, '\t');
    }
    std::istringstream words(values);
    for (std::string word; words >> word;) one.values.push_back(std::stod(word));
    one.rule = {.scale = std::stod(scale), .round = round == "yes", .saturate = saturate == "yes"};
    cases.push_back(one);
  }
  return cases;
}

}  // namespace

TEST_CASE("convert: numbers become elements by the rule, whatever surrounds them and in every order", "[convert]") {
  const auto cases = rule_cases();
  REQUIRE(cases.size() > 50);
  std::mt19937 random(1);
  for (const RuleCase& one : cases) {
    for (int surroundings = 0; surroundings < 100; ++surroundings) {
      std::vector<MatrixEntry> entries;
      for (const double value : one.values) {
        if (value != 0) entries.push_back({.column = 9, .row = 50, .value = value});
      }
      ChangedElements changed;
      const double other = 1 / one.rule.scale;  // becomes 1
      for (std::uint32_t e = 0, more = other * one.rule.scale == 1 ? 20 : 0; e < more; ++e) {
        entries.push_back({.column = 10 + e, .row = 40 + e, .value = other});
      }
      std::shuffle(entries.begin(), entries.end(), random);
      INFO(one.result << " of " << one.values.size() << ": " << one.values[0]);
      try {
        make_elements(entries, one.rule, changed, "a.mtx");
      } catch (const FormatError& error) {
        CHECK(std::string(error.what()).find(one.result) != std::string::npos);
        CHECK(std::string(error.what()).find("at row 51, column 10 ") != std::string::npos);
        continue;
      }
      const auto at = std::find_if(entries.begin(), entries.end(), [](const auto& entry) { return entry.column == 9; });
      CHECK(std::to_string(at == entries.end() ? 0 : static_cast<int>(at->value)) == one.result);
    }
    if (one.result[0] > '9') continue;  // refused
    std::vector<MatrixEntry> alone;
    for (const double value : one.values) {
      if (value != 0) alone.push_back({.column = 9, .row = 50, .value = value});
    }
    ChangedElements changed;
    make_elements(alone, one.rule, changed, "a.mtx");
    CHECK(changed.rounded == (one.change == "rounded" ? 1 : 0));
    CHECK(changed.raised == (one.change == "raised" ? 1 : 0));
    CHECK(changed.cut == (one.change == "cut" ? 1 : 0));
  }
}

TEST_CASE("convert: the summary counts what the rule has changed", "[convert]") {
  std::vector<MatrixEntry> wide;
  for (const double value : {0.25, -0.25, 2.5, -0.75, -3.0, 65535.25, 65535.5, 1e300, 7.0, 70000.0}) {
    wide.push_back({.column = static_cast<std::uint32_t>(wide.size()), .row = 0, .value = value});
  }
  ChangedElements changed;
  make_elements(wide, {.round = true, .saturate = true}, changed, "a.mtx");
  CHECK(changed.summary() == "; 4 rounded, 2 raised to 0, 3 cut to 65535");
  CHECK(ChangedElements{}.summary().empty());
}
