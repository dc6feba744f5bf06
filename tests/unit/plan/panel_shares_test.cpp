// How a product is shared out among devices, and where their records belong.
#include "plan/panels/panel_shares.hpp"

#include <algorithm>
#include <numeric>
#include <random>

#include "plan/panels/output_places.hpp"
#include "plan/registry.hpp"
#include "support/catch.hpp"
#include "unit/plan/plan_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::plan;
using spmm::test::evenly_spread;
using spmm::test::large_machine;

RowPairs pairs_of(const std::vector<std::uint64_t>& per_row, std::uint32_t rows_per_run = 1) {
  RowPairs pairs{
      .rows_per_run = rows_per_run, .num_rows = static_cast<std::uint32_t>(per_row.size()), .max_row_pairs = 0};
  std::uint64_t sum = 0;
  for (std::size_t row = 0; row < per_row.size(); ++row) {
    sum += per_row[row];
    if ((row + 1) % rows_per_run == 0 || row + 1 == per_row.size()) pairs.offsets.push_back(sum);
    pairs.max_row_pairs = std::max(pairs.max_row_pairs, per_row[row]);
  }
  return pairs;
}

double work_of(const Panel& panel, const ShareRules& rules) {
  return rules.by_rows ? panel.num_rows : static_cast<double>(panel.num_pairs);
}

/// Every pair once; in the order of rows and columns; at borders of runs.
void check_shared(const std::vector<SharedPanel>& shared, const std::vector<Panel>& panels, const RowPairs& pairs,
                  const ShareRules& rules) {
  std::pair<std::uint32_t, std::uint32_t> reached;  // row and column behind the last
  std::uint64_t num_pairs = 0;
  for (const SharedPanel& one : shared) {
    const Panel& panel = one.panel;
    REQUIRE(one.device < rules.num_devices);
    const std::pair begin{panel.row_begin, panel.column_begin};
    CHECK(begin >= reached);
    reached = {panel.row_begin + (panel.num_rows > 1 ? panel.num_rows : 0),
               panel.num_rows > 1 ? 0 : panel.column_begin + panel.num_columns};
    num_pairs += panel.num_pairs;
    if (panel.num_pairs == 0) continue;
    CHECK(panel.row_begin % pairs.rows_per_run == 0);
    CHECK(panel.first_pair == pairs.offsets[panel.row_begin / pairs.rows_per_run]);
    const std::size_t end_run = (panel.row_begin + panel.num_rows + pairs.rows_per_run - 1) / pairs.rows_per_run;
    CHECK(panel.first_pair + panel.num_pairs == pairs.offsets[end_run]);
    std::uint64_t largest = 0;
    for (const Panel& whole : panels) largest = std::max(largest, whole.max_c_blocks());
    CHECK(panel.max_c_blocks() <= largest);
    CHECK(panel.max_c_blocks() > 0);
  }
  CHECK(num_pairs == pairs.offsets.back());
}

std::vector<double> loads(const std::vector<SharedPanel>& shared, const ShareRules& rules) {
  std::vector<double> all(rules.num_devices, 0);
  for (const SharedPanel& one : shared) all[one.device] += work_of(one.panel, rules);
  return all;
}

}  // namespace

TEST_CASE("shares: whatever the rows and panels, every pair is computed once and in order") {
  std::mt19937 random(11);
  for (int round = 0; round < 400; ++round) {
    std::vector<std::uint64_t> per_row(random() % 300 + 1);
    for (std::uint64_t& row : per_row) row = random() % (round % 3 == 0 ? 3 : 40);
    if (round % 5 == 0) per_row[random() % per_row.size()] = 5000;
    const auto listing = static_cast<Listing>(round % 4);
    const std::uint32_t rows_per_run = listing == Listing::never || round % 2 == 0 ? 1 : random() % 4 + 1;
    const RowPairs pairs = pairs_of(per_row, rows_per_run);
    std::uint64_t most = 1;
    for (std::size_t run = 0; rows_per_run > 1 && run < pairs.num_runs(); ++run) {
      most = std::max(most, pairs.offsets[run + 1] - pairs.offsets[run]);
    }
    const std::vector<Panel> panels = cut_panels(pairs, 50, most + random() % 1000, listing);
    const ShareRules rules{.num_devices = static_cast<std::uint32_t>(random() % 4 + 1),
                           .by_rows = listing == Listing::never,
                           .row_step = listing == Listing::never ? 1u + static_cast<std::uint32_t>(random() % 9) : 1,
                           .min_c_blocks = 1 + random() % 50};
    INFO("round " << round);
    check_shared(share_panels(panels, pairs, rules), panels, pairs, rules);
  }
}

TEST_CASE("shares: even rows give even shares, by pairs and by rows") {
  const RowPairs pairs = pairs_of(std::vector<std::uint64_t>(8192, 1000));
  for (const std::uint32_t num_devices : {2u, 3u, 4u, 8u}) {
    for (const std::uint64_t panel_rows : {8192u, 5000u, 1819u, 700u}) {
      for (const bool by_rows : {false, true}) {
        const ShareRules rules{.num_devices = num_devices, .by_rows = by_rows, .row_step = by_rows ? 32u : 1u};
        const std::vector<Panel> panels = cut_panels(pairs, 8192, panel_rows * 8192, Listing::never);
        const std::vector<SharedPanel> shared = share_panels(panels, pairs, rules);
        const std::vector<double> all = loads(shared, rules);
        const double sum = std::accumulate(all.begin(), all.end(), 0.0);
        INFO(num_devices << " devices, panels of " << panel_rows << " rows");
        const double margin = num_devices == 2 ? 1.02 : 1.1;
        CHECK(*std::max_element(all.begin(), all.end()) <= margin * sum / num_devices);
        CHECK(shared.size() <= 16 * num_devices + 4 * panels.size() + 4);
      }
    }
  }
}

TEST_CASE("shares: dense panels are divided at tiles") {
  const RowPairs pairs = pairs_of(std::vector<std::uint64_t>(1024, 10));
  const std::vector<Panel> panels = cut_panels(pairs, 1024, 1024 * 1024, Listing::never);
  REQUIRE(panels.size() == 1);
  for (const SharedPanel& one : share_panels(panels, pairs, {.num_devices = 2, .by_rows = true, .row_step = 32})) {
    CHECK(one.panel.row_begin % 32 == 0);
  }
}

TEST_CASE("shares: one row, one heavy row, and nothing at all") {
  const ShareRules two{.num_devices = 2};
  const RowPairs single = pairs_of({7});
  const auto shared = share_panels(cut_panels(single, 10, 100), single, two);
  REQUIRE(shared.size() == 1);
  CHECK(shared[0].device == 0);
  CHECK(share_panels({}, RowPairs{}, two).empty());

  std::vector<std::uint64_t> rows(100, 1);
  rows[50] = 10'000;
  const RowPairs heavy = pairs_of(rows);
  const auto by_pairs = share_panels(cut_panels(heavy, 20'000, 20'000, Listing::wherever_it_fits), heavy, two);
  const std::vector<double> load = loads(by_pairs, two);
  CHECK(std::max(load[0], load[1]) <= 10'099);
  CHECK(std::min(load[0], load[1]) >= 40);  // the other device has its own rows
}

TEST_CASE("shares: no column chunk of a row is lost, though only the first one names its pairs") {
  const RowPairs pairs = pairs_of({700});
  const std::vector<Panel> panels = cut_panels(pairs, 1000, 300, Listing::never);
  REQUIRE(panels.size() == 4);
  const std::vector<SharedPanel> shared = share_panels(panels, pairs, {.num_devices = 2});
  REQUIRE(shared.size() == 4);
  for (std::uint32_t x = 0; x < 4; ++x) CHECK(shared[x].panel.column_begin == 300 * x);
}

TEST_CASE("shares: pieces are not smaller than they may be") {
  const RowPairs pairs = pairs_of(std::vector<std::uint64_t>(1000, 4));
  const std::vector<Panel> panels = cut_panels(pairs, 1000, 1'000'000, Listing::wherever_it_fits);
  CHECK(share_panels(panels, pairs, {.num_devices = 2, .min_c_blocks = 5000}).size() == 1);
  CHECK(share_panels(panels, pairs, {.num_devices = 2, .min_c_blocks = 1500}).size() == 2);
  CHECK(share_panels(panels, pairs, {.num_devices = 2}).size() == 4);
}

TEST_CASE("places: a piece has one once all before it are counted") {
  OutputPlaces places(3);
  CHECK(places.place(0) == 0);
  CHECK_FALSE(places.place(1));
  places.set_count(1, 5);
  CHECK_FALSE(places.place(2));
  places.set_count(0, 3);
  CHECK(places.place(1) == 3);
  CHECK(places.place(2) == 8);

  CHECK(places.is_next(0));
  CHECK_FALSE(places.is_next(1));
  places.set_end(1);
  CHECK_FALSE(places.is_next(2));
  places.set_end(0);
  CHECK(places.is_next(1));
  CHECK(places.is_next(2));
}

TEST_CASE("decision: several devices are used where they are asked for, or gain; their least memory counts") {
  const Statistics s3 = evenly_spread(32'768, 8, 8.8e6, 1'000);
  Limits limits = large_machine();
  limits.device->number = 3;
  limits.more_devices = {*limits.device};
  limits.more_devices[0].number = 5;
  limits.more_devices[0].bytes = std::uint64_t{40} << 30;
  Limits alone = limits;
  alone.more_devices.clear();
  const Execution one = decide(s3, alone);
  REQUIRE(one.devices.size() == 1);
  CHECK(one.devices[0].number == 3);
  CHECK(one.devices[0].share == 1);

  limits.shares_always = true;
  const Execution two = decide(s3, limits);
  REQUIRE(two.devices.size() == 2);
  CHECK(two.devices[1].number == 5);
  CHECK(two.devices[1].share == 0.5);
  CHECK(two.device_limit_bytes == limits.more_devices[0].bytes);
  CHECK(two.host_need_bytes == 2 * one.host_need_bytes);

  // Writing is the bottleneck; a second context costs more than it saves. A slow kernel changes that.
  limits.shares_always = false;
  limits.more_devices[0].start_s = 0.1;
  CHECK(decide(s3, limits).devices.size() == 1);
  limits.more_devices[0].start_s = 0;
  CHECK(decide(s3, limits).devices.size() == 1);
  Limits slow = limits;
  slow.kernel = plan::KernelId::dense_tiled;
  CHECK(decide(s3, slow).devices.size() == 2);
  // Nothing to gain for a small product, and never the smaller one of two.
  CHECK(decide(evenly_spread(8'192, 8, 1'000), limits).devices.size() == 1);
}

TEST_CASE("decision: a product out of core runs on the first device alone") {
  const Statistics s3 = evenly_spread(32'768, 8, 8.8e6, 1'000);
  Limits limits = large_machine();
  limits.device->bytes = std::uint64_t{1} << 30;
  limits.more_devices = {*limits.device};
  limits.shares_always = true;
  const Execution e = decide(s3, limits);
  REQUIRE_FALSE(e.is_refused());
  CHECK(e.is_out_of_core());
  CHECK(e.devices.size() == 1);
  CHECK(e.range_limits.more_devices.empty());
}
