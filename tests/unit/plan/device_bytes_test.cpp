// Device memory: the allocations of src/cuda, written out once more step by step, never pass what is planned.
#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>

#include "kernels/tuning.hpp"
#include "plan/decide.hpp"
#include "plan/memory/dense_plan.hpp"
#include "plan/memory/device_bytes.hpp"
#include "plan/models/device_models.hpp"
#include "plan/registry.hpp"
#include "support/catch.hpp"
#include "unit/plan/plan_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;

/// Counts like DeviceMemory: what is held by name, and the most that ever was.
class Mirror {
 public:
  void take(const std::string& name, std::uint64_t bytes) {
    held_[name] += bytes;
    now_ += bytes;
    peak_ = std::max(peak_, now_);
  }
  void release(const std::string& name) {
    now_ -= held_[name];
    held_.erase(name);
  }
  [[nodiscard]] std::uint64_t peak() const { return peak_; }

 private:
  std::map<std::string, std::uint64_t> held_;
  std::uint64_t now_ = 0;
  std::uint64_t peak_ = 0;
};

/// Scratch of a library sort, scan or selection: a few words per tile of some thousand items, and what is fixed.
std::uint64_t library_bytes(std::uint64_t count) {
  return (1u << 20) + count;
}

struct Operand {
  std::string name;
  MatrixHeader header;
  [[nodiscard]] std::uint64_t blocks() const { return header.num_blocks; }
  [[nodiscard]] std::uint64_t values() const { return blocks() * 2 * header.m * header.m; }
  [[nodiscard]] std::uint64_t rows() const { return std::min(header.num_blocks, header.blocks_per_side()); }
};

void sort(Mirror& memory, const Operand& x) {  // Builder::sort
  memory.take("other keys", 8 * x.blocks());
  memory.take(x.name + " numbers", 4 * x.blocks());
  memory.take("other numbers", 4 * x.blocks());
  memory.release("other keys");
  memory.release("other numbers");
}

void index(Mirror& memory, const std::string& name, const Operand& x) {  // Builder::complete_rows
  memory.take(name, 4 * x.rows() + 4 * x.blocks());
}

/// CountedSort, all of which is given back where a row is too long for it.
void sort_by_counting(Mirror& memory, const Operand& a, const Operand& b) {
  for (const Operand* x : {&a, &b}) {
    if (x->blocks() == 0) continue;
    memory.take("counted", 4 * x->blocks() + 4 * x->rows() + 4 * (x->rows() + 1) + 4 * x->blocks());
    memory.take("counted", 16 * x->blocks() + 40 * std::uint64_t{x->header.blocks_per_side()} + 8);
  }
  memory.take("counted", library_bytes(2 * std::uint64_t{a.header.blocks_per_side()}));
  memory.take("counted", 48);
  memory.take("counted", 4 * a.blocks() + 8 * a.rows() + 8 * (a.rows() + 1) + 8 * (a.rows() + 1));
  memory.release("counted");
}

std::uint32_t ahead_side(const Operand& a, plan::Layout layout) {
  const bool is_padded = layout == plan::Layout::rows || layout == plan::Layout::rows_file_order;
  return is_padded ? kernels::padded_side(a.header.m) : a.header.m;
}

/// upload(), CountedSort, sort_rows(), count_pairs(). layout: as expected of the headers.
void build(Mirror& memory, const Operand& a, const Operand& b, plan::Layout layout) {
  const std::uint64_t section = plan::upload_section_chunks(a.header) * kernels::kRingSlotBytes;
  for (const Operand* x : {&a, &b}) {
    memory.take(x->name + " keys", 8 * x->blocks());
    memory.take(x->name + " parsed", x->values());
    const std::uint64_t raw = x->blocks() * input_record_bytes(x->header.m);
    memory.take("staging", std::min(section, raw) + (raw > section ? section : 0) + 16);
  }
  const std::uint32_t nb = a.header.blocks_per_side();
  const bool counts = plan::has_room_to_count(a.blocks(), b.blocks(), a.header.m, nb);
  if (counts && plan::has_room_to_sort_ahead(a.header, b.header)) sort_by_counting(memory, a, b);
  memory.release("staging");
  memory.take("flags", 64);
  if (counts) sort_by_counting(memory, a, b);
  memory.take("work", library_bytes(std::max(a.blocks(), b.blocks())));
  for (const Operand* x : {&a, &b}) {  // the index while sorting, as Builder::sort_short_rows has it
    memory.take(x->name + " offsets", 4 * (x->rows() + 1));
    index(memory, x->name + " index", *x);
    sort(memory, *x);
  }
  memory.release("a keys");
  memory.release("work");
  memory.release("flags");
  memory.take("slots", 4 * a.blocks());
  memory.take("pair offsets", 8 * (a.blocks() + 1));
  if (plan::has_device_row_table(a.blocks(), a.header.blocks_per_side())) {
    memory.take("row table", 4 * std::uint64_t{a.header.blocks_per_side()});
    memory.release("row table");
  }
  memory.take("work", library_bytes(a.blocks()));
  memory.take("row pairs", 8 * (a.rows() + 3));
  memory.release("row pairs");
  memory.release("work");
  const std::uint32_t side = ahead_side(a, layout);
  if (!counts || nb > kernels::kBitmapColumns) return;
  memory.take("ahead", std::uint64_t{2} * side * side * a.blocks());
  if (plan::has_room_to_gather_ahead(a.header, b.header, side)) {
    memory.take("ahead", std::uint64_t{2} * side * side * b.blocks());
  }
  memory.take("counters", 72 * std::uint64_t{nb});
  memory.release("counters");
}

/// arrange_operands().
void arrange(Mirror& memory, const Operand& a, const Operand& b, plan::Layout layout, bool is_dense) {
  if (is_dense) {
    memory.release("slots");
    memory.release("pair offsets");
  }
  if (layout != plan::Layout::b_by_columns) memory.release("b keys");
  if (layout == plan::Layout::rows_file_order) return;
  memory.take("work", library_bytes(layout == plan::Layout::b_by_columns ? b.blocks() : 0));
  memory.take("a values", a.values());
  memory.release("a parsed");
  if (layout == plan::Layout::b_by_columns) {
    sort(memory, {.name = "columns", .header = b.header});
    memory.take("flags", 16);
    memory.take("columns offsets", 4 * (b.rows() + 1));
    index(memory, "columns index", b);
    memory.take("records", 4 * b.blocks());
  }
  memory.take("b values", b.values());
  for (const char* name :
       {"b parsed", "work", "flags", "records", "columns numbers", "b keys", "a numbers", "b numbers"}) {
    memory.release(name);
  }
}

/// SmallMultiplier, on a device with this much shared memory, and B's rows as many as there can be.
std::uint64_t small_blocks_bytes(const plan::Execution& e, const plan::Statistics& s) {
  std::uint64_t most = 0;
  for (const kernels::SmallCta cta : {kernels::kSmallestCta, kernels::kSmallWideCta}) {
    std::uint64_t units = 0, rows = 0;
    for (const plan::Panel& panel : e.panels) {
      const kernels::SmallShape shape = kernels::small_shape(s.m(), panel.num_columns, cta);
      const std::uint64_t pairs = panel.num_rows == 1 ? panel.max_row_pairs : panel.num_pairs;
      units = std::max(units, kernels::max_small_tasks(shape, panel.num_rows, pairs, cta.warps));
      rows = std::max<std::uint64_t>(rows, panel.num_rows);
    }
    const std::uint64_t chunks = kernels::small_shape(s.m(), s.nb(), cta).dense_chunks;
    const std::uint64_t split = s.b_rows * (chunks + 1) * 4;
    std::uint64_t c_blocks = 0;
    for (const plan::Panel& panel : e.panels) c_blocks = std::max(c_blocks, panel.max_c_blocks());
    const std::uint64_t arrived = c_blocks * output_record_bytes(s.m()) + 12 * (units + 1) + 4;
    const std::uint64_t all = 16 * (units + 1) + 12 * (rows + 1) + library_bytes(rows + units) + 4 + arrived +
                              (split <= kernels::kSmallSplitBytes ? split : 0);
    most = std::max(most, all);
  }
  return most;
}

/// count_tiles(): bitmaps of A and B, B's across, counts, C's.
void count_tiles(Mirror& memory, const kernels::TileGrid& grid) {
  memory.take("tile maps", 4 * (grid.a_words() + grid.b_words()));
  memory.take("across", 4 * grid.b_across_words());
  memory.take("tile counts", 4 * grid.num_k_tiles() + 16 * grid.num_row_tiles() + 24);
  memory.take("tile maps", 4 * grid.c_words());
  memory.release("across");
  memory.release("tile counts");
}

/// TileMultiplier, in addition to what every filler of C blocks has.
std::uint64_t tile_bytes(const plan::Execution& e, const plan::Statistics& s) {
  const kernels::TileGrid grid = plan::tile_grid(s);
  plan::TileExtent most;
  for (const plan::Panel& panel : e.panels) most.raise(plan::tile_panel_extent(grid, s.tiles, panel));
  const std::uint64_t a = most.a_tiles * (128 * 128 + 8) + 4 * most.row_tiles + 4;
  const std::uint64_t b = s.tiles.b_tiles * (256 * 128 + 8) + 4 * grid.num_column_tiles() + 4;
  const std::uint64_t lists = 12 * most.row_tiles + 32 * most.c_tiles + 8 * most.stages + 4 * 2048 + 8;
  return a + b + lists + 8 * most.c_blocks;
}

/// Tiles at random, as many as there can be at most.
plan::TileCounts random_tiles(const plan::Statistics& s, std::mt19937_64& random) {
  const kernels::TileGrid grid = plan::tile_grid(s);
  const plan::TileExtent most = plan::max_tile_row(grid);
  const std::uint64_t one_of = random() % 10 + 1;
  plan::TileCounts counts{.counted = true, .b_tiles = plan::max_b_tiles(grid, s.b.num_blocks) / one_of};
  for (std::uint32_t row = 0; row < grid.num_row_tiles(); ++row) {
    const std::uint64_t part = random() % 5 == 0 ? 1 : one_of;
    counts.rows.push_back({.a_tiles = static_cast<std::uint32_t>(most.a_tiles / part),
                           .stages = static_cast<std::uint32_t>(most.stages / part),
                           .c_tiles = static_cast<std::uint32_t>(most.c_tiles / part),
                           .c_columns = static_cast<std::uint32_t>(grid.nb / part)});
    counts.stages += counts.rows.back().stages;
  }
  return counts;
}

/// RankedMultiplier, where C blocks can be zero.
std::uint64_t row_rank_bytes(const plan::Execution& e, const plan::Statistics& s) {
  std::uint64_t c_blocks = 0, parts = 0, rows = 0;
  for (const plan::Panel& panel : e.panels) {
    const std::uint64_t pairs = panel.num_rows == 1 ? panel.max_row_pairs : panel.num_pairs;
    c_blocks = std::max(c_blocks, panel.max_c_blocks());
    parts = std::max(parts, kernels::max_row_pieces(panel.num_rows, pairs));
    rows = std::max<std::uint64_t>(rows, panel.num_rows);
  }
  return 8 * rows + 4 * (rows + 1) + 16 * parts + 8 * (parts + 1) + 20 * kernels::max_rank_windows(parts, c_blocks) +
         (4 + output_record_bytes(s.m()) + 1) * c_blocks + 4 * kernels::max_rank_splits(c_blocks, true) + 32 +
         library_bytes(std::max({rows, parts, c_blocks}));
}

/// run_panels() and the multipliers.
void multiply(Mirror& memory, const plan::Execution& e, const plan::Statistics& s) {
  const std::uint64_t m = s.m();
  const plan::KernelRow& kernel = plan::row_of(e.id);
  std::uint64_t tiles = 0, listed = 0, sorted = 0, split = 0;
  std::uint32_t rows = 0;
  for (const plan::Panel& panel : e.panels) {
    tiles = std::max(tiles, panel.max_c_blocks());
    rows = std::max(rows, panel.num_rows);
    if (!panel.expand) continue;
    listed = std::max(listed, panel.num_pairs);
    if (panel.max_row_pairs > kernels::kShortRowPairs) sorted = std::max(sorted, panel.num_pairs);
    if (panel.max_row_pairs > kernels::kSplitKPairs) split = std::max(split, panel.num_pairs / kernels::kSplitKPairs);
  }
  memory.take("packed", (e.panels.size() > 1 ? 2 : 1) * tiles * output_record_bytes(s.m()));
  if (kernel.writes_all_c_blocks) {
    memory.take("tiles", tiles * (4 * m * m + 1 + 4) + library_bytes(tiles));
    if (kernel.b_by_columns) memory.take("list", 3 * 8 * listed + 4 + (listed == 0 ? 0 : library_bytes(listed)));
  } else {
    memory.take("pairs", 8 * (listed + sorted) + 16 * sorted + 8 * listed + 4 * (listed + 1) + 8);
    memory.take("split", split * (4 + 8 * m * m));
    memory.take("work", listed == 0 ? 0 : library_bytes(listed));
    if (e.id == plan::KernelId::small_blocks) {
      memory.take("units", small_blocks_bytes(e, s));
    } else if (e.id == plan::KernelId::row_rank) {
      memory.take("windows", row_rank_bytes(e, s));
    } else {
      memory.take("states", 8 * (tiles + 1));
    }
  }
  if (kernel.expansion == plan::Expansion::byte_planes) {
    memory.take("planes", plan::plane_bytes(s.nb(), rows, s.m(), e.num_planes) +
                              plan::plane_bytes(s.nb(), e.dense_columns, s.m(), e.num_planes));
    memory.take("saturated", (rows * m + 127) / 128 * ((s.nb() * m + 255) / 256) + 4);
  }
  if (kernel.expansion == plan::Expansion::tiles) memory.take("operand tiles", tile_bytes(e, s));
  if (kernel.expansion == plan::Expansion::elements) {
    memory.take("dense",
                plan::dense_a_bytes(s.nb(), rows, s.m()) + plan::dense_b_bytes(s.nb(), e.dense_columns, s.m()));
  }
}

/// Exact statistics: pairs at random over the rows, some of them heavy.
plan::Statistics random_counts(const MatrixHeader& a, const MatrixHeader& b, std::mt19937_64& random) {
  plan::Statistics s = plan::expected_statistics(a, b);
  s.exact = true;
  constexpr std::uint32_t kLargest[] = {200, 1000, 65'535};
  s.max_element = kLargest[random() % 3];
  s.a_rows = std::min<std::uint64_t>(s.a_rows, 3000);
  if (random() % 2 == 0) s.c_columns_end = static_cast<std::uint32_t>(random() % s.nb() + 1);
  s.row_pairs = {.num_rows = static_cast<std::uint32_t>(s.a_rows)};
  const double mean = s.num_pairs / static_cast<double>(std::max<std::uint64_t>(1, s.a_rows));
  for (std::uint64_t row = 0; row < s.a_rows; ++row) {
    const double factor = static_cast<double>(random() % 1000) / 500 * (random() % 100 == 0 ? 20 : 1);
    s.row_pairs.offsets.push_back(s.row_pairs.offsets.back() + static_cast<std::uint64_t>(mean * factor));
  }
  s.num_pairs = static_cast<double>(s.row_pairs.offsets.back());
  return s;
}

}  // namespace

TEST_CASE("what the CUDA backend allocates stays within the bytes that are planned") {
  std::mt19937_64 random(1);
  int ran = 0;
  int ran_tiles = 0;
  int counted = 0;
  for (int round = 0; round < 300; ++round) {
    const std::uint32_t m = std::array{1u, 3u, 4u, 7u, 8u, 16u, 64u}.at(random() % 7);
    const auto nb = static_cast<std::uint32_t>(random() % 6000 + 1);
    const auto blocks = [&] {
      return static_cast<std::uint32_t>(std::min<std::uint64_t>(random() % 2'000'000, std::uint64_t{nb} * nb));
    };
    const Operand a{.name = "a", .header = {.n = nb * m, .m = m, .num_blocks = blocks()}};
    const Operand b{.name = "b", .header = {.n = nb * m, .m = m, .num_blocks = blocks()}};
    const plan::Statistics pairs = random_counts(a.header, b.header, random);
    plan::Limits limits = large_machine();
    limits.force = true;
    limits.device->bytes = std::uint64_t{1} << (27 + random() % 9);
    for (const plan::KernelRow& row : plan::registry()) {
      if (row.backend != Backend::cuda || (row.max_side != 0 && m > row.max_side)) continue;
      limits.kernel = row.id;
      const plan::Execution expected = plan::decide(plan::expected_statistics(a.header, b.header), limits);
      if (expected.is_refused() || expected.is_in_slabs()) continue;
      plan::Statistics exact = pairs;
      plan::Execution e = plan::decide(exact, limits);
      INFO(row.name << ", n " << a.header.n << ", m " << m << ", " << a.blocks() << " and " << b.blocks() << " blocks");
      REQUIRE_FALSE(e.is_refused());  // what was expected to fit does
      REQUIRE_FALSE(e.wants_row_counts);
      Mirror memory;
      build(memory, a, b, expected.operand_layout);
      REQUIRE(e.wants_tile_counts == (row.expansion == plan::Expansion::tiles));
      if (e.wants_tile_counts) {
        if (plan::tile_map_bytes(plan::tile_grid(exact)) > plan::kTileMapsBesideValues) memory.release("ahead");
        count_tiles(memory, plan::tile_grid(exact));
        REQUIRE(memory.peak() <= e.device_need_bytes);
        exact.tiles = random_tiles(exact, random);
        e = plan::decide(exact, limits);
        REQUIRE_FALSE(e.is_refused());
        ++ran_tiles;
      }
      memory.release("ahead");
      arrange(memory, a, b, e.operand_layout, row.is_dense());
      multiply(memory, e, exact);
      REQUIRE(memory.peak() <= e.device_need_bytes);
      REQUIRE(e.device_need_bytes <= limits.device->bytes);
      ++ran;
    }
    // Tiles that are counted for a choice lie within what any kernel needs.
    limits.kernel = std::nullopt;
    const plan::Execution e = plan::decide(pairs, limits);
    if (e.is_refused() || !e.wants_tile_counts) continue;
    Mirror memory;
    build(memory, a, b, plan::decide(plan::expected_statistics(a.header, b.header), limits).operand_layout);
    if (plan::tile_map_bytes(plan::tile_grid(pairs)) > plan::kTileMapsBesideValues) memory.release("ahead");
    count_tiles(memory, plan::tile_grid(pairs));
    REQUIRE(memory.peak() <= e.device_need_bytes);
    ++counted;
  }
  CHECK(ran > 500);
  CHECK(ran_tiles > 30);
  CHECK(counted > 30);
}
