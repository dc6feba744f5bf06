// Planner and panels: pure functions, checked as such.
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "plan/dense_plan.hpp"
#include "plan/kernel_choice.hpp"
#include "plan/panels.hpp"
#include "plan/planner.hpp"
#include "spmm/error.hpp"
#include "support/catch.hpp"

namespace {

using namespace spmm;
using plan::Panel;

/// Rows with these pairs, in runs.
plan::RowPairs offsets_of(const std::vector<std::uint64_t>& pairs, std::uint32_t rows_per_run = 1) {
  plan::RowPairs out{.rows_per_run = rows_per_run, .num_rows = static_cast<std::uint32_t>(pairs.size())};
  std::uint64_t sum = 0;
  for (std::size_t r = 0; r < pairs.size(); ++r) {
    sum += pairs[r];
    if ((r + 1) % rows_per_run == 0 || r + 1 == pairs.size()) out.offsets.push_back(sum);
  }
  return out;
}

/// Most pairs of a run that begins in the panel.
std::uint64_t max_run_pairs(const plan::RowPairs& runs, const Panel& panel) {
  std::uint64_t most = 0;
  for (std::size_t run = 0; run < runs.num_runs(); ++run) {
    const std::uint32_t line = runs.first_row(run);
    if (line < panel.row_begin || line >= panel.row_begin + panel.num_rows) continue;
    most = std::max(most, runs.offsets[run + 1] - runs.offsets[run]);
  }
  return most;
}

/// Every row with pairs is covered exactly once, in order, and no panel is too large.
void check_cover(const std::vector<std::uint64_t>& pairs, std::uint32_t num_columns, std::uint64_t max_c_blocks,
                 std::uint32_t rows_per_run = 1) {
  const plan::RowPairs runs = offsets_of(pairs, rows_per_run);
  const std::vector<Panel> panels = plan::cut_panels(runs, num_columns, max_c_blocks);
  std::vector<std::uint64_t> columns_done(pairs.size(), 0);
  std::uint64_t counted_pairs = 0;
  std::uint64_t last_row = 0;
  for (const Panel& panel : panels) {
    REQUIRE(panel.max_c_blocks() <= max_c_blocks);
    REQUIRE(panel.max_c_blocks() >= 1);
    if (panel.expand) REQUIRE(panel.num_pairs <= max_c_blocks);
    REQUIRE(panel.row_begin >= last_row);
    last_row = panel.row_begin;
    counted_pairs += panel.num_pairs;
    REQUIRE(panel.max_row_pairs == max_run_pairs(runs, panel));
    for (std::uint32_t r = panel.row_begin; r < panel.row_begin + panel.num_rows; ++r) {
      REQUIRE(columns_done[r] == panel.column_begin);
      columns_done[r] += panel.num_columns;
    }
  }
  std::uint64_t all_pairs = 0;
  for (std::size_t r = 0; r < pairs.size(); ++r) {
    all_pairs += pairs[r];
    if (pairs[r] != 0) REQUIRE(columns_done[r] == num_columns);
  }
  REQUIRE(counted_pairs == all_pairs);
}

constexpr MatrixHeader kSmall{.n = 8192, .m = 8, .num_blocks = 100'000};

}  // namespace

TEST_CASE("panels cover every row with pairs once") {
  check_cover({}, 5, 1);
  check_cover({0, 0, 0}, 5, 1);
  check_cover({1}, 1, 1);
  check_cover({3, 0, 0, 1000, 2, 0}, 10, 4);
  check_cover({7, 7, 7, 7}, 7, 7);
  check_cover({7, 7, 7, 7}, 7, 6);
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::uint64_t> pairs(random() % 60);
    for (auto& p : pairs) p = random() % 3 == 0 ? 0 : random() % (random() % 10 == 0 ? 100'000 : 30);
    check_cover(pairs, 1 + static_cast<std::uint32_t>(random() % 50), 1 + random() % 300);
  }
}

TEST_CASE("panels of short rows are cut between runs") {
  check_cover({1, 2, 0, 3, 1, 1, 0}, 1000, 8, 3);
  std::mt19937_64 random(2);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::uint64_t> pairs(random() % 200);
    for (auto& p : pairs) p = random() % 4;
    check_cover(pairs, 1 + static_cast<std::uint32_t>(random() % 50), 30 + random() % 300,
                1 + static_cast<std::uint32_t>(random() % 10));
  }
}

TEST_CASE("a panel knows a bound on the pairs of its rows") {
  const auto bounds = [](const plan::RowPairs& rows, std::uint64_t max_c_blocks) {
    std::vector<std::uint64_t> all;
    for (const Panel& panel : plan::cut_panels(rows, 1000, max_c_blocks)) all.push_back(panel.max_row_pairs);
    return all;
  };
  using Numbers = std::vector<std::uint64_t>;
  CHECK(bounds(offsets_of({3, 90, 7, 0, 20}), 1000) == Numbers{90});
  CHECK(bounds(offsets_of({60, 50, 0, 10, 70}), 100) == Numbers{60, 50, 70});
  CHECK(bounds(offsets_of({5, 5000}), 900) == Numbers{5, 5000, 5000});  // two column chunks
  plan::RowPairs in_runs = offsets_of({3, 90, 7, 0, 20}, 2);
  CHECK(bounds(in_runs, 1000) == Numbers{93});
  in_runs.max_row_pairs = 90;  // of the whole matrix
  CHECK(bounds(in_runs, 1000) == Numbers{90});
}

TEST_CASE("alternating long and short rows do not make a panel each") {
  std::vector<std::uint64_t> pairs;
  for (int r = 0; r < 10'000; ++r) pairs.push_back(r % 2 == 0 ? 1 : 90);
  CHECK(plan::cut_panels(offsets_of(pairs), 100, 100'000).size() <= 12);
}

TEST_CASE("a hypersparse result is listed, a dense one visited") {
  CHECK(plan::cut_panels(offsets_of({5, 5, 5}), 1000, 1 << 20).front().expand);
  CHECK_FALSE(plan::cut_panels(offsets_of({900, 900}), 1000, 1 << 20).front().expand);
}

TEST_CASE("the CUDA plan stays within the limit and shrinks its panels") {
  const plan::Limits large{
      .host_bytes = std::uint64_t{8} << 30, .device_bytes = std::uint64_t{80} << 30, .num_threads = 8};
  plan::Limits tight = large;
  tight.device_bytes = 300u << 20;
  const Plan wide = plan::plan_cuda(kSmall, kSmall, "two-pointer", "test", large);
  const Plan narrow = plan::plan_cuda(kSmall, kSmall, "two-pointer", "test", tight);
  CHECK(wide.device_need_bytes <= large.device_bytes);
  CHECK(narrow.device_need_bytes <= tight.device_bytes);
  CHECK(narrow.panel_bytes < wide.panel_bytes);
  CHECK(narrow.panel_bytes >= output_record_bytes(8));
  CHECK(wide.expected_pairs == Approx(9.765625e6));
  CHECK(wide.expected_output_blocks == Approx(1'048'495).epsilon(0.001));
}

TEST_CASE("a refusal says need and have") {
  const plan::Limits none{.host_bytes = 1000, .device_bytes = 1000, .num_threads = 1};
  const auto message = [](const auto& plan) -> std::string {
    try {
      plan();
    } catch (const OutOfMemory& error) {
      return error.what();
    }
    return "accepted";
  };
  const std::string device = message([&] { plan::plan_cuda(kSmall, kSmall, "two-pointer", "test", none); });
  CHECK(device.find("needs") != std::string::npos);
  CHECK(device.find("1000 bytes") != std::string::npos);
  CHECK(device.find("--memory-limit") != std::string::npos);
  const std::string host = message([&] {
    plan::plan_cpu(kSmall, kSmall, "row-merge", "test", none, [](const Plan&) { return std::uint64_t{123'456}; });
  });
  CHECK(host.find("123456 bytes") != std::string::npos);
  CHECK(host.find("1000 bytes") != std::string::npos);
}

TEST_CASE("the CPU plan gives up buffers before it refuses") {
  const auto need = [](const Plan& plan) { return 1'000'000 + plan.panel_bytes * plan.num_buffers; };
  const plan::Limits roomy{.host_bytes = std::uint64_t{8} << 30, .device_bytes = 0, .num_threads = 4};
  plan::Limits tight = roomy;
  tight.host_bytes = 1'000'000 + 264 * 5;
  const Plan wide = plan::plan_cpu(kSmall, kSmall, "row-merge", "test", roomy, need);
  const Plan narrow = plan::plan_cpu(kSmall, kSmall, "row-merge", "test", tight, need);
  CHECK(wide.panel_bytes > narrow.panel_bytes);
  CHECK(narrow.host_need_bytes <= tight.host_bytes);
  CHECK(narrow.panel_bytes >= output_record_bytes(8));
  CHECK(narrow.num_buffers >= 2);
}

namespace {

/// Statistics of a product of evenly spread blocks on a large Hopper device.
plan::ProductStatistics evenly_spread(std::uint32_t n, std::uint32_t m, double k) {
  const double nb = n / m;
  return {.m = m,
          .nb = n / m,
          .num_blocks = static_cast<std::uint64_t>(2 * k),
          .num_pairs = static_cast<std::uint64_t>(k * k / nb),
          .num_rows = n / m,
          .num_c_blocks = static_cast<std::uint64_t>(std::min(k * k / nb, nb * nb)),
          .max_element = 2047,
          .has_dense_tensor = true,
          .free_bytes = std::uint64_t{100} << 30,
          .max_c_blocks = 4u << 20};
}

}  // namespace

TEST_CASE("the kernel follows density, device and memory") {
  const auto best = [](const plan::ProductStatistics& s) { return plan::rank_kernels(s).front().kernel; };
  CHECK(best(evenly_spread(8'192, 8, 1e5)) == "rows");
  CHECK(best(evenly_spread(32'768, 4, 1e6)) == "rows");
  CHECK(best(evenly_spread(1'048'576, 8, 1e6)) == "rows");
  const plan::ProductStatistics dense = evenly_spread(32'768, 8, 8.8e6);
  CHECK(best(dense) == "dense-tensor");
  plan::ProductStatistics other_device = dense;
  other_device.has_dense_tensor = false;
  CHECK(best(other_device) == "rows");
  plan::ProductStatistics little_memory = dense;
  little_memory.free_bytes = 2u << 30;  // groups of block columns of B, expanded again for every panel
  CHECK(best(little_memory) == "dense-tensor");
  CHECK(plan::rank_kernels(little_memory).front().predicted_ms > plan::rank_kernels(dense).front().predicted_ms);
  little_memory.free_bytes = 20u << 20;
  CHECK(best(little_memory) == "rows");
  plan::ProductStatistics narrow_panels = dense;
  narrow_panels.max_c_blocks = dense.nb - 1;
  CHECK(best(narrow_panels) == "rows");
  const auto least_ms = [](const plan::ProductStatistics& s) { return plan::rank_kernels(s).front().predicted_ms; };
  plan::ProductStatistics one_byte = dense;
  one_byte.max_element = 20;
  plan::ProductStatistics two_bytes = dense;
  two_bytes.max_element = 900;                  // the sums stay below 2^32
  CHECK(least_ms(dense) < least_ms(one_byte));  // saturated half way, found with one byte
  CHECK(least_ms(one_byte) < least_ms(two_bytes));
  plan::ProductStatistics saturates_at_once = dense;
  saturates_at_once.max_element = 65'535;
  plan::ProductStatistics larger_still = saturates_at_once;
  larger_still.num_pairs *= 2;  // the first check for saturation costs the same
  CHECK(plan::rank_kernels(larger_still).front().predicted_ms ==
        plan::rank_kernels(saturates_at_once).front().predicted_ms);
}

TEST_CASE("byte planes hold every row in groups of eight") {
  CHECK(plan::num_byte_planes(255) == 1);
  CHECK(plan::num_byte_planes(256) == 2);
  CHECK(plan::low_plane_bits(255) == 0);
  CHECK(plan::low_plane_bits(2047) == 3);
  CHECK(plan::low_plane_bits(2048) == 4);
  CHECK(plan::low_plane_bits(65'535) == 8);
  CHECK(plan::plane_stride_bytes(16, 8) == 128);
  CHECK(plan::plane_stride_bytes(17, 8) == 256);
  CHECK(plan::plane_bytes(16, 3, 5, 1) == 16 * 128);
  CHECK(plan::plane_bytes(16, 3, 5, 2) == 2 * 16 * 128);
}

TEST_CASE("dense panels and groups stay within the free memory") {
  constexpr std::uint32_t kNb = 8192;
  constexpr std::uint32_t kM = 4;
  constexpr std::uint64_t kAll = std::uint64_t{kNb} * kNb;
  CHECK(plan::dense_panel_blocks(kNb, kM, kAll, std::uint64_t{100} << 30) == kAll);
  CHECK(plan::dense_panel_blocks(kNb, kM, kNb - 1, std::uint64_t{100} << 30) == 0);
  CHECK(plan::dense_panel_blocks(kNb, kM, kAll, 1000) == 0);
  CHECK(plan::dense_group_columns(kNb, kM, 2, plan::plane_bytes(kNb, kNb, kM, 2)) == kNb);
  CHECK(plan::dense_group_columns(kNb, kM, 2, 1000) == 0);
  CHECK(plan::dense_group_columns(1u << 30, 4, 2, std::uint64_t{1} << 60) == 0);
  for (const std::uint64_t free : {100u << 20, 500u << 20, 2000u << 20}) {
    const std::uint64_t tiles = plan::dense_panel_blocks(kNb, kM, kAll, free);
    CHECK(tiles % kNb == 0);
    CHECK(tiles * (2 * output_record_bytes(kM) + plan::c_block_bytes(kM)) <= free / 2);
    const std::uint32_t group = plan::dense_group_columns(kNb, kM, 2, free / 2);
    CHECK(group > 0);
    CHECK(group % 64 == 0);
    CHECK(plan::plane_bytes(kNb, group, kM, 2) <= free / 2);
  }
}

TEST_CASE("listing can be forbidden and preferred") {
  const auto offsets = offsets_of({5, 900, 5});
  for (const Panel& panel : plan::cut_panels(offsets, 1000, 1 << 20, plan::Listing::never)) CHECK_FALSE(panel.expand);
  for (const Panel& panel : plan::cut_panels(offsets, 1000, 1 << 20, plan::Listing::wherever_it_fits)) {
    CHECK(panel.expand);
  }
}
