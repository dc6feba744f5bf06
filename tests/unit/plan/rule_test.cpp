// The rule that chooses a CUDA kernel, against the times in data/measurements.
#include "plan/rule.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plan/choice.hpp"
#include "plan/times.hpp"
#include "support/catch.hpp"
#include "test_paths.hpp"
#include "unit/plan/plan_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;

/// Device milliseconds of the kernels that were measured for a product.
struct MeasuredCase {
  std::string name;
  plan::Counts s;
  std::map<std::string, double> ms;
  std::string picked;  ///< by the program that was measured; "" = every kernel was named
};

/// Rows of A with blocks.
double stored_rows(const std::string& name, const MatrixHeader& a) {
  // Counted in the operands; evenly spread ones follow from their number.
  static const std::map<std::string, double> kCounted = {
      {"rmat-1e6-m1", 40'868}, {"rmat-4e6-m1", 149'621}, {"rmat-4e6-m4", 149'621}, {"rmat-5e5-m16", 33'882},
      {"power-law-S1", 2041},  {"power-law-S2", 8082},   {"arrow-m8", 8000},       {"hub", 131'072}};
  const auto at = kCounted.find(name);
  if (at != kCounted.end()) return at->second;
  const double nb = a.blocks_per_side();
  const bool is_structured = name.starts_with("stencil") || name.starts_with("band") || name.starts_with("groups") ||
                             name.starts_with("diagonal") || name.starts_with("saddle");
  return is_structured ? nb : nb * -std::expm1(-double(a.num_blocks) / nb);
}

/// Tiles of block-diagonal and banded operands, all rows of tiles alike: `width` block columns of a row meet each
/// other.
plan::TileCounts tiles_of(const plan::Counts& s, double a_width, double c_width) {
  const kernels::TileGrid grid = plan::tile_grid(s);
  const auto tiles = [](double blocks, double of_tile) {
    return static_cast<std::uint32_t>(std::ceil(blocks / of_tile));
  };
  const double k_blocks = double(kernels::kTileDepth) / s.m();
  kernels::TileRowCounts row{};
  row.a_tiles = tiles(a_width, k_blocks);
  row.c_tiles = tiles(c_width, grid.column_blocks());
  row.stages = std::uint64_t{row.a_tiles} * tiles(a_width, grid.column_blocks());
  plan::TileCounts counts{.counted = true, .b_tiles = std::uint64_t{tiles(s.nb(), k_blocks)} * row.c_tiles};
  counts.rows.assign(grid.num_row_tiles(), row);
  return counts;
}

plan::Counts statistics_of(const nlohmann::json& one) {
  const MatrixHeader header{.n = one["n"], .m = one["m"], .num_blocks = one["k"]};
  plan::Counts s{.a = header, .b = header, .exact = true};
  for (const nlohmann::json& kernel : one["kernels"]) {
    if (kernel.contains("pairs") && kernel["pairs"].is_number()) s.num_pairs = kernel["pairs"];
  }
  s.a_rows = static_cast<std::uint64_t>(stored_rows(one["name"], header));
  s.b_rows = s.a_rows;
  s.max_element = one["max_value"];
  const std::string pattern = one["pattern"];
  const double rows_of_tile = kernels::kTileRowsA / 2.0 / s.m();
  if (pattern == "block-diagonal") s.tiles = tiles_of(s, one["group"], one["group"]);
  if (pattern == "banded" && one.contains("bandwidth")) {
    const double width = 2.0 * one["bandwidth"].get<double>() + rows_of_tile;
    s.tiles = tiles_of(s, width, 2 * width);
  }
  return s;
}

/// Cases of all files, each once: times of kernels that were named in any of them, and of the one that was picked in
/// the newest.
std::vector<MeasuredCase> measured_cases() {
  std::vector<MeasuredCase> all;
  // Newest first; those all of whose times a newer one has may be gone.
  for (const char* const file : {"kernels", "patterns-short", "density-short", "speed", "patterns-rest", "patterns",
                                 "sides", "shapes", "density", "reference"}) {
    std::ifstream in(std::string(SPMM_SOURCE_DIR) + "/data/measurements/gpu-" + file + ".json");
    if (!in) continue;
    const nlohmann::json json = nlohmann::json::parse(in);
    for (const nlohmann::json& one : json["cases"]) {
      const auto same =
          std::find_if(all.begin(), all.end(), [&](const auto& other) { return other.name == one["name"]; });
      MeasuredCase& to = same != all.end() ? *same : all.emplace_back();
      if (to.name.empty()) to = {.name = one["name"], .s = statistics_of(one), .ms = {}, .picked = {}};
      for (const nlohmann::json& kernel : one["kernels"]) {
        if (kernel["status"] != "ok") continue;
        const bool was_open = kernel["kernel"] == "auto";
        if (was_open && to.picked.empty()) to.picked = kernel["chosen"];
        to.ms.emplace(kernel["chosen"], kernel["device_ms"]["median"]);  // the newest stays
      }
    }
  }
  return all;
}

std::string chosen(const plan::Counts& s) {
  return std::string(plan::fastest_kernel(s, true));
}

}  // namespace

TEST_CASE("the rule takes kernels that were measured to be fast") {
  constexpr double kSlow = 1.3;
  constexpr double kWorst = 2;
  std::vector<std::string> slow;
  std::vector<std::string> other;  // another kernel than the one that was picked, and no time of it
  std::size_t compared = 0;
  int number = 0;
  for (const MeasuredCase& one : measured_cases()) {
    const std::string kernel = chosen(one.s);
    const auto at = one.ms.find(kernel);
    INFO(++number << ": " << one.name << " takes " << kernel);
    if (at == one.ms.end()) {
      other.push_back(one.name);
      continue;
    }
    const auto fastest = std::min_element(one.ms.begin(), one.ms.end(),
                                          [](const auto& x, const auto& y) { return x.second < y.second; });
    if (one.ms.size() > 1) ++compared;
    if (at->second > kSlow * fastest->second) slow.push_back(one.name);
    CHECK(at->second <= kWorst * fastest->second);
  }
  CHECK(compared >= 25);
  CHECK(slow.size() <= compared / 20);
  CHECK(number >= 151);
  INFO(other.size() << " cases whose kernel was not measured, first " << other.front());
  CHECK(other.size() <= 7);
}

TEST_CASE("a process takes the backend that was measured to end first") {
  constexpr double kSlow = 1.3;
  constexpr double kWorst = 2.5;
  std::ifstream in(std::string(SPMM_SOURCE_DIR) + "/data/measurements/processes.json");
  REQUIRE(in);
  const nlohmann::json json = nlohmann::json::parse(in);
  plan::Limits limits = large_machine();
  limits.backend = Backend::automatic;
  limits.num_threads = limits.num_cores = json["machine"]["cores"];
  limits.gpus[0].start_s = plan::kDeviceStartS;
  limits.discards_result = true;
  std::vector<std::string> slow;
  for (const nlohmann::json& one : json["cases"]) {
    const MatrixHeader header{.n = one["n"], .m = one["m"], .num_blocks = one["k"]};
    plan::Counts s{.a = header, .b = header, .num_pairs = one["pairs"], .num_c_blocks = one["c_blocks"]};
    s.a_rows = s.b_rows = static_cast<std::uint64_t>(stored_rows(one["name"], header));
    std::map<std::string, double> ms;
    for (const nlohmann::json& row : one["kernels"]) ms[row["kernel"]] = row["ms"]["median"];
    const double taken = ms.at(plan::decide(s, limits).backend == Backend::cuda ? "cuda" : "cpu");
    const double ratio = taken / std::min(ms.at("cuda"), ms.at("cpu"));
    INFO(one["name"] << " takes " << ratio << " times as long as the faster backend");
    CHECK(ratio <= kWorst);
    if (ratio > kSlow) slow.push_back(one["name"]);
  }
  CHECK(json["cases"].size() >= 33);
  CHECK(slow.size() <= json["cases"].size() / 10);
}
