// How a product is shared out among devices.
#include <algorithm>
#include <numeric>
#include <vector>

#include "plan/registry.hpp"
#include "support/catch.hpp"
#include "unit/plan/plan_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::plan;
using spmm::test::counted;
using spmm::test::evenly_spread;
using spmm::test::large_machine;

Limits machine_with(std::uint32_t num_gpus) {
  Limits limits = large_machine();
  limits.gpus.resize(num_gpus, limits.gpus.front());
  limits.shares_always = true;
  return limits;
}

/// The largest share over a fair one, by pairs or by rows.
double imbalance(const std::vector<Panel>& panels, std::uint32_t num_gpus, bool by_rows) {
  std::vector<double> load(num_gpus);
  for (const Panel& panel : panels) {
    REQUIRE(panel.device < num_gpus);
    load[panel.device] += by_rows ? panel.num_rows : static_cast<double>(panel.num_pairs);
  }
  return *std::max_element(load.begin(), load.end()) * num_gpus / std::accumulate(load.begin(), load.end(), 0.0);
}

}  // namespace

TEST_CASE("shares: every pair is computed once, by a device that has an even share") {
  for (const std::uint32_t num_gpus : {2u, 3u, 4u, 8u}) {
    for (const std::string_view kernel : {"rows", "pair-list", "row-spread", "dense-tiled"}) {
      Limits limits = machine_with(num_gpus);
      limits.kernel = plan::kernel_named(kernel);
      const Counts s = counted(evenly_spread(32'768, 8, 1e6, 1'000));
      const Choice e = decide(s, limits);
      INFO(kernel << " on " << num_gpus << " devices");
      const bool is_dense = row_of(kernel).is_dense();
      CHECK(e.panels.size() >= 4 * num_gpus);
      CHECK(imbalance(e.panels, num_gpus, is_dense) < (is_dense ? 1.13 : 1.05));
      std::uint64_t num_pairs = 0;
      std::uint32_t next_row = 0;
      for (const Panel& panel : e.panels) {
        CHECK(panel.row_begin == next_row);
        CHECK(panel.max_c_blocks() <= e.max_c_blocks);
        if (is_dense) CHECK(panel.row_begin % 16 == 0);  // rows of a tile
        next_row += panel.num_rows;
        num_pairs += panel.num_pairs;
      }
      CHECK(next_row == s.a_rows);
      CHECK(num_pairs == s.row_pairs.offsets.back());
    }
  }
}

TEST_CASE("shares: a heavy row leaves the others to the other device; column chunks of a row count alike") {
  std::vector<Panel> panels(100, {.num_rows = 1, .num_columns = 10, .num_pairs = 1});
  panels[50].num_pairs = 10'000;
  share_out(panels, 2, false);
  CHECK(std::count_if(panels.begin(), panels.end(), [](const Panel& panel) { return panel.device == 0; }) >= 25);
  CHECK(imbalance(panels, 2, false) * (10'099 / 2.0) < 10'050);
  std::vector<Panel> chunks(4, {.num_rows = 1, .num_columns = 300});
  chunks[0].num_pairs = 700;
  for (std::uint32_t x = 0; x < 4; ++x) chunks[x].column_begin = 300 * x;
  share_out(chunks, 2, false);
  CHECK(std::count_if(chunks.begin(), chunks.end(), [](const Panel& panel) { return panel.device == 0; }) == 2);
}

TEST_CASE("shares: panels are not smaller than a slot of the ring") {
  const Counts s = counted(evenly_spread(8'192, 8, 2'000));  // 4,000 C blocks at most
  CHECK(decide(s, machine_with(2)).panels.size() == 1);
  CHECK(decide(counted(evenly_spread(8'192, 8, 0)), machine_with(2)).panels.empty());
}

TEST_CASE("decision: several devices are used where they are asked for, or gain; their least memory counts") {
  const Counts s3 = evenly_spread(32'768, 8, 8.8e6, 1'000);
  Limits limits = machine_with(2);
  limits.gpus[0].number = 3;
  limits.gpus[1].number = 5;
  limits.gpus[1].bytes = std::uint64_t{40} << 30;
  Limits alone = limits;
  alone.gpus.resize(1);
  const Choice one = decide(s3, alone);
  REQUIRE(one.devices.size() == 1);
  CHECK(one.devices[0].number == 3);
  CHECK(one.devices[0].share == 1);

  const Choice two = decide(s3, limits);
  REQUIRE(two.devices.size() == 2);
  CHECK(two.devices[1].number == 5);
  CHECK(two.devices[1].share == 0.5);
  CHECK(two.device_limit_bytes == limits.gpus[1].bytes);
  CHECK(two.host_need_bytes == 2 * one.host_need_bytes);

  // Writing is the bottleneck; a second context costs more than it saves. A slow kernel changes that.
  limits.shares_always = false;
  limits.gpus[1].start_s = 0.1;
  CHECK(decide(s3, limits).devices.size() == 1);
  limits.gpus[1].start_s = 0;
  CHECK(decide(s3, limits).devices.size() == 1);
  Limits slow = limits;
  slow.kernel = plan::kernel_named("dense-tiled");
  CHECK(decide(s3, slow).devices.size() == 2);
  // Nothing to gain for a small product, and never the smaller one of two.
  CHECK(decide(evenly_spread(8'192, 8, 1'000), limits).devices.size() == 1);
}

TEST_CASE("decision: a product out of core runs on the first device alone") {
  const Counts s3 = evenly_spread(32'768, 8, 8.8e6, 1'000);
  Limits limits = machine_with(2);
  for (Gpu& gpu : limits.gpus) gpu.bytes = std::uint64_t{1} << 30;
  const Choice e = decide(s3, limits);
  REQUIRE_FALSE(e.is_refused());
  CHECK(e.is_out_of_core());
  CHECK(e.devices.size() == 1);
  CHECK(e.limits.gpus.size() == 1);
}
