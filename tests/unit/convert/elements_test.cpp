// The parts of spmm-convert: sorting, sums, block sides.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "support/catch.hpp"
#include "tools/convert/blocks.hpp"
#include "tools/convert/elements.hpp"
#include "unit/convert/support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
using namespace spmm::tools;

std::vector<MatrixEntry> random_entries(std::size_t count, std::uint32_t side, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<MatrixEntry> entries(count);
  for (MatrixEntry& entry : entries) {
    const auto row = static_cast<std::uint32_t>(random() % side);
    const auto column = static_cast<std::uint32_t>(random() % side);
    entry = {.column = column, .row = row % 5 == 0 ? row / 2 : row, .value = 1.0 + static_cast<double>(random() % 9)};
  }
  return entries;
}

std::vector<std::uint64_t> keys_of(const std::vector<MatrixEntry>& entries) {
  std::vector<std::uint64_t> keys;
  for (const MatrixEntry& entry : entries) keys.push_back(entry.key());
  return keys;
}

std::uint64_t blocks_by_definition(const std::vector<MatrixEntry>& entries, std::uint32_t m) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> blocks;
  for (const MatrixEntry& entry : entries) blocks.emplace(entry.row / m, entry.column / m);
  return blocks.size();
}

}  // namespace

TEST_CASE("convert: elements are sorted by row and column, for every number of threads", "[convert]") {
  for (const std::uint32_t side : {1u, 3u, 1000u, 5'000'000u, UINT32_MAX}) {
    const auto given = random_entries(20'000, side, side);
    auto expected = keys_of(given);
    std::sort(expected.begin(), expected.end());
    double sum = 0;
    for (const MatrixEntry& entry : given) sum += entry.value;
    for (const unsigned threads : {1u, 3u}) {
      auto entries = given;
      sort_entries(entries, threads);
      CHECK(keys_of(entries) == expected);
      double found = 0;
      for (const MatrixEntry& entry : entries) found += entry.value;
      CHECK(found == sum);
    }
  }
}

TEST_CASE("convert: blocks are counted as by definition, and the shortest file is chosen", "[convert]") {
  for (const std::uint32_t side : {7u, 100u, 3000u, 4'000'000'000u}) {
    auto entries = random_entries(3000, side, 7);
    sort_entries(entries, 1);
    ChangedElements changed;
    REQUIRE(make_elements(entries, {.saturate = true}, changed).fault == ElementFault::none);
    for (const std::uint32_t m : kTriedSides) CHECK(count_blocks(entries, m) == blocks_by_definition(entries, m));
    std::uint64_t least = UINT64_MAX;
    for (const std::uint32_t m : kTriedSides) {
      least = std::min(least, blocks_by_definition(entries, m) * input_record_bytes(m));
    }
    const std::uint32_t chosen = choose_block_side(entries, 0, 2);
    CHECK(count_blocks(entries, chosen) * input_record_bytes(chosen) == least);
  }
  std::vector<MatrixEntry> full;
  for (std::uint32_t row = 0; row < 64; ++row) {
    for (std::uint32_t column = 0; column < 64; ++column) full.push_back({.column = column, .row = row, .value = 1});
  }
  CHECK(choose_block_side(full, 0, 1) == 64);
  CHECK(choose_block_side(full, 96, 1) == 32);
  CHECK(choose_block_side(full, 7 * 11 * 13, 1) == 13);
}

TEST_CASE("convert: sums become elements by the rule", "[convert]") {
  const double infinity = std::numeric_limits<double>::infinity();
  const ElementRule strict;
  const ElementRule soft{.round = true, .saturate = true};
  CHECK(apply_rule(65535, strict).value == 65535);
  CHECK(apply_rule(0.5, strict).fault == ElementFault::fraction);
  CHECK(apply_rule(-1, strict).fault == ElementFault::negative);
  CHECK(apply_rule(65536, strict).fault == ElementFault::too_large);
  CHECK(apply_rule(std::nan(""), soft).fault == ElementFault::not_a_number);
  CHECK(apply_rule(0.5, soft).value == 0);
  CHECK(apply_rule(1.5, soft).value == 2);
  CHECK(apply_rule(2.5, soft).value == 2);
  CHECK(apply_rule(65535.5, {.round = true}).fault == ElementFault::too_large);
  CHECK(apply_rule(-0.25, {.round = true}).fault == ElementFault::none);
  CHECK(apply_rule(infinity, soft).value == 65535);
  CHECK(apply_rule(-infinity, soft).value == 0);
  CHECK(apply_rule(0.25, {.scale = 4}).value == 1);
  CHECK(apply_rule(3, {.scale = 0.5}).fault == ElementFault::fraction);

  std::vector<MatrixEntry> entries = {{.column = 1, .row = 0, .value = 70000},
                                      {.column = 1, .row = 0, .value = -69999},
                                      {.column = 2, .row = 0, .value = 5},
                                      {.column = 2, .row = 0, .value = -5},
                                      {.column = 0, .row = 9, .value = 8}};
  ChangedElements changed;
  CHECK(make_elements(entries, strict, changed).fault == ElementFault::none);
  CHECK(changed.summary().empty());
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].value == 1);
  CHECK(entries[1].key() == std::uint64_t{9} << 32);

  std::vector<MatrixEntry> wide;
  for (const double value : {0.25, -0.25, 2.5, -0.75, -3.0, 65535.25, 65535.5, 1e300, 7.0, infinity}) {
    wide.push_back({.column = static_cast<std::uint32_t>(wide.size()), .row = 0, .value = value});
  }
  CHECK(make_elements(wide, soft, changed).fault == ElementFault::none);
  CHECK(changed.rounded == 4);
  CHECK(changed.raised == 2);
  CHECK(changed.cut == 3);
  CHECK(changed.summary() == "; 4 rounded, 2 raised to 0, 3 cut to 65535");
}
