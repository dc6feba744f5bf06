// Right results are accepted, whatever they are made of; each kind of wrong one is an alarm that says what is wrong.
#include <string>

#include "spmm/error.hpp"
#include "spmm/saturate.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/oracle.hpp"
#include "unit/verify/proof_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct Designed {
  BlockMatrix a;
  BlockMatrix b;
  ProductMatrix c;
};

/// C = A B with blocks of side 4, 40 block columns, where element columns below `num_saturated` saturate in every row.
Designed designed(std::uint32_t num_saturated, std::uint32_t num_rows = 3) {
  constexpr std::uint32_t kSide = 4;
  constexpr std::uint32_t kBlocks = 40;
  constexpr std::uint32_t kDepth = 2;
  Designed d;
  d.a = {.n = kSide * kBlocks, .m = kSide, .index = {}, .values = {}};
  d.b = d.a;
  for (std::uint32_t i = 0; i < num_rows; ++i) {
    for (std::uint32_t k = 0; k < kDepth; ++k) {
      d.a.index.push_back({.i = 2 * i, .j = k});
      d.a.values.insert(d.a.values.end(), kSide * kSide, static_cast<std::uint16_t>(60000 + i));
    }
  }
  for (std::uint32_t k = 0; k < kDepth; ++k) {
    for (std::uint32_t j = 0; j < kBlocks; ++j) {
      d.b.index.push_back({.i = k, .j = j});
      for (std::uint32_t e = 0; e < kSide * kSide; ++e) {
        const std::uint32_t col = j * kSide + e % kSide;
        d.b.values.push_back(col < num_saturated ? 65000 : static_cast<std::uint16_t>(col + e));
      }
    }
  }
  d.c = oracle_multiply(d.a, d.b);
  return d;
}

}  // namespace

TEST_CASE("proof: every recipe of the battery, several sides, in any order of pieces") {
  for (const std::uint32_t m : {1u, 2u, 3u, 4u, 8u, 12u}) {
    for (const Recipe& recipe : battery()) {
      INFO("m " << m << ", " << recipe.name);
      const auto [a, b] = recipe.make(m, 1);
      const ProductMatrix c = oracle_multiply(a, b);
      CHECK(prove(a, b, c).is_right());
      const Proven backwards = prove(a, b, c, {.settings = {.key = 2}, .piece_records = 1, .backwards = true});
      CHECK(backwards.is_right());
      if (c.index.empty()) continue;
      ProductMatrix wrong = c;
      std::uint32_t& element = wrong.values[wrong.values.size() / 2];
      element = element == 0 ? 1 : element - 1;
      CHECK_FALSE(prove(a, b, wrong).is_right());
    }
  }
}

TEST_CASE("proof: bounded memory gives the same answers, slab by slab") {
  const auto limited = [](std::uint64_t bytes, std::uint64_t key) {
    return ProvenHow{.settings = {.key = key, .memory_bytes = bytes}};
  };
  for (const std::uint32_t most : {2000u, 65535u}) {
    const BlockMatrix a = random_matrix(8 * 40, 8, 300, most, 1);
    const BlockMatrix b = random_matrix(8 * 40, 8, 300, most, 2);
    const ProductMatrix c = oracle_multiply(a, b);
    for (const std::uint64_t bytes : {40'000u, 90'000u, 1'000'000u}) {
      INFO(most << " " << bytes);
      CHECK(prove(a, b, c, limited(bytes, 3)).is_right());
      ProductMatrix wrong = c;
      wrong.values[wrong.values.size() / 3] ^= 4;
      CHECK_FALSE(prove(a, b, wrong, limited(bytes, 3)).is_right());
    }
  }
}

TEST_CASE("proof: one column where nothing can saturate, four where something may") {
  const BlockMatrix a = random_matrix(8 * 40, 8, 200, 2047, 1);
  const BlockMatrix b = random_matrix(8 * 40, 8, 200, 2047, 2);
  CHECK(prove(a, b, oracle_multiply(a, b)).result.num_columns == 1);
  const Designed some = designed(2);
  const Proven proven = prove(some.a, some.b, some.c);
  CHECK(proven.is_right());
  CHECK(proven.result.num_columns == 4);
  CHECK(proven.result.num_saturated == 2 * 3 * 4);
  CHECK(proven.result.num_exact == 0);
}

TEST_CASE("proof: rows with more saturated elements than equations are summed, wholly saturated ones bounded") {
  for (const std::uint32_t num_saturated : {0u, 1u, 3u, 4u, 5u, 17u, 100u, 156u, 159u, 160u}) {
    const Designed d = designed(num_saturated);
    INFO(num_saturated);
    const Proven proven = prove(d.a, d.b, d.c);
    CHECK(proven.is_right());
    CHECK(proven.result.num_saturated == num_saturated * 12);
    CHECK(proven.result.num_exact == (num_saturated > 3 ? 3 : 0));
    for (std::size_t element = 0; element < d.c.values.size(); element += 37) {
      ProductMatrix wrong = d.c;
      std::uint32_t& value = wrong.values[element];
      value = value == kMaxVal ? kMaxVal - 1 : kMaxVal;
      INFO(element);
      CHECK_FALSE(prove(d.a, d.b, wrong).is_right());
      value ^= 1u << 20;
      if (value == d.c.values[element]) continue;
      CHECK_FALSE(prove(d.a, d.b, wrong).is_right());
    }
  }
}

TEST_CASE("proof: an alarm names the block, the element and both values") {
  const BlockMatrix a = random_matrix(4 * 20, 4, 80, 2047, 1);
  const BlockMatrix b = random_matrix(4 * 20, 4, 80, 2047, 2);
  const ProductMatrix c = oracle_multiply(a, b);
  ProductMatrix wrong = c;
  wrong.values[5 * 16 + 6] += 3;
  const BlockIndex at = c.index[5];
  const std::string said = prove(a, b, wrong).result.differences;
  INFO(said);
  CHECK(contains(said, "1 block row is wrong, 1 blocks of 1 of them"));
  CHECK(contains(said, "block (" + std::to_string(at.i) + ", " + std::to_string(at.j) + "): 1 of 16 elements differ"));
  CHECK(contains(said, "element (1, 2) expected " + std::to_string(c.values[5 * 16 + 6]) + ", found " +
                           std::to_string(wrong.values[5 * 16 + 6])));
  const std::string unseen = prove(a, b, wrong, {.can_find = false}).result.differences;
  INFO(unseen);
  CHECK(contains(unseen,
                 "block row " + std::to_string(at.i) + ": element rows " + std::to_string(at.i * 4 + 1) + " differ"));
}

TEST_CASE("proof: dropped, added and swapped blocks, blocks in rows that A does not store") {
  const BlockMatrix a = random_matrix(4 * 1'000'000, 4, 60, 2047, 1);  // few rows hold blocks: numbered by a list
  BlockMatrix b = random_matrix(4 * 1'000'000, 4, 60, 2047, 2);
  for (std::size_t x = 0; x < b.index.size(); ++x) b.index[x].i = a.index[x].j;  // rows that A meets
  const ProductMatrix c = oracle_multiply(a, b);
  REQUIRE(c.index.size() > 20);
  CHECK(prove(a, b, c).is_right());
  ProductMatrix dropped = c;
  dropped.index.erase(dropped.index.begin() + 7);
  dropped.values.erase(dropped.values.begin() + 7 * 16, dropped.values.begin() + 8 * 16);
  const Proven without = prove(a, b, dropped);
  CHECK(without.result.num_wrong == 1);
  CHECK(contains(without.result.differences, "is absent"));
  CHECK_FALSE(prove(a, b, dropped, {.can_find = false}).is_right());
  ProductMatrix empty = c;
  empty.index.clear();
  empty.values.clear();
  CHECK(prove(a, b, empty).result.num_wrong > 20);
  ProductMatrix swapped = c;
  std::swap(swapped.index[3].j, swapped.index[9].j);
  CHECK_FALSE(prove(a, b, swapped).is_right());
  for (const std::uint32_t value : {1u, kMaxVal}) {
    ProductMatrix stray = c;
    stray.index.push_back({.i = 999'999, .j = 5});
    stray.values.insert(stray.values.end(), 16, value);
    CHECK_FALSE(prove(a, b, stray).is_right());
    CHECK_FALSE(prove(a, b, stray, {.can_find = false}).is_right());
  }
}

TEST_CASE("proof: indices out of range and zero blocks are flaws with their record") {
  const BlockMatrix a = random_matrix(4 * 20, 4, 80, 2047, 1);
  const ProductMatrix c = oracle_multiply(a, a);
  ProductMatrix outside = c;
  outside.index[33].j = 20;
  const Proven found = prove(a, a, outside);
  REQUIRE(found.flaw);
  CHECK(found.flaw->kind == ProofFlaw::Kind::out_of_range);
  CHECK(found.flaw->record == 33);
  outside = c;
  outside.index[0].i = 20;
  CHECK(prove(a, a, outside).flaw);
  ProductMatrix zero = c;
  zero.index.push_back({.i = 3, .j = 7});
  zero.values.insert(zero.values.end(), 16, 0);
  const Proven with_zero = prove(a, a, zero);
  REQUIRE(with_zero.flaw);
  CHECK(with_zero.flaw->kind == ProofFlaw::Kind::zero_block);
  CHECK(with_zero.flaw->record == c.index.size());
  CHECK(prove(a, a, zero, {.settings = {.key = 1, .allow_zero_blocks = true}}).is_right());
}

TEST_CASE("proof: operands without blocks") {
  const BlockMatrix none{.n = 64, .m = 4, .index = {}, .values = {}};
  const BlockMatrix some = random_matrix(64, 4, 20, 65535, 1);
  const ProductMatrix c{.n = 64, .m = 4, .index = {}, .values = {}};
  CHECK(prove(none, none, c).is_right());
  CHECK(prove(some, none, c).is_right());
  CHECK(prove(none, some, c).is_right());
  ProductMatrix wrong = c;
  wrong.index.push_back({.i = 2, .j = 3});
  wrong.values.insert(wrong.values.end(), 16, 1);
  CHECK_FALSE(prove(some, none, wrong).is_right());
  CHECK_FALSE(prove(none, some, wrong).is_right());
  CHECK_FALSE(prove(none, some, wrong, {.can_find = false}).is_right());
}

TEST_CASE("proof: an operand with an index out of range is rejected with its record") {
  const BlockMatrix a = random_matrix(64, 4, 20, 65535, 1);
  BlockMatrix broken = a;
  broken.index[11].j = 16;
  const ProductMatrix c{.n = 64, .m = 4, .index = {}, .values = {}};
  CHECK_THROWS_AS(prove(broken, a, c), FormatError);
  CHECK_THROWS_AS(prove(a, broken, c), FormatError);
}

TEST_CASE("proof: places of saturated elements are bounded by the memory limit") {
  const Designed d = designed(17);
  CHECK_THROWS_AS(prove(d.a, d.b, d.c, {.settings = {.key = 1, .memory_bytes = 200}}), OutOfMemory);
}
