// Right results are accepted, whatever they are made of; each kind of wrong one is an alarm that says what is wrong.
#include <set>
#include <string>

#include "base/memory/aligned_array.hpp"
#include "spmm/error.hpp"
#include "spmm/saturate.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/matrices.hpp"
#include "support/oracle.hpp"
#include "support/wrapped_calls.hpp"
#include "unit/verify/proof_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;

/// Each block once: the first one of several.
void remove_duplicates(BlockMatrix& matrix) {
  const std::size_t elements = std::size_t{matrix.m} * matrix.m;
  std::set<BlockIndex> seen;
  std::size_t num_kept = 0;
  for (std::size_t x = 0; x < matrix.index.size(); ++x) {
    if (!seen.insert(matrix.index[x]).second) continue;
    matrix.index[num_kept] = matrix.index[x];
    std::copy_n(matrix.values.begin() + static_cast<std::ptrdiff_t>(x * elements), elements,
                matrix.values.begin() + static_cast<std::ptrdiff_t>(num_kept * elements));
    ++num_kept;
  }
  matrix.index.resize(num_kept);
  matrix.values.resize(num_kept * elements);
}

}  // namespace

TEST_CASE("proof: of chosen rows exactly those are proven") {
  constexpr std::uint32_t kRows = 200;
  for (const std::uint32_t most : {2000u, 65535u}) {
    const BlockMatrix a = random_matrix(4 * kRows, 4, 600, most, 1);
    const BlockMatrix b = random_matrix(4 * kRows, 4, 600, most, 2);
    const ProductMatrix c = oracle_multiply(a, b);
    const auto chosen = [&](std::uint64_t num, std::uint64_t seed) {
      return ProvenHow{.settings = {.num_blocks = num, .seed = seed, .key = 1}, .can_find = seed % 2 == 0};
    };
    const Proven right = prove(a, b, c, chosen(20, 1));
    CHECK(right.is_right());
    CHECK(right.result.num_rows <= 20 * 4);
    CHECK(right.result.num_blocks < c.index.size() / 2);
    CHECK(prove(a, b, c, chosen(a.index.size(), 1)).result.num_blocks == c.index.size());  // all of them
    std::uint64_t num_found = 0;
    constexpr std::uint64_t kSeeds = 100;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      ProductMatrix wrong = c;
      const std::size_t block = seed * 7919 % c.index.size();
      if (seed % 3 == 0) {  // a block is missing
        wrong.index.erase(wrong.index.begin() + static_cast<std::ptrdiff_t>(block));
        const auto from = wrong.values.begin() + static_cast<std::ptrdiff_t>(block * 16);
        wrong.values.erase(from, from + 16);
      } else {
        wrong.values[block * 16 + seed % 16] ^= 1u << seed % 32;
      }
      num_found += prove(a, b, wrong, chosen(60, seed)).is_right() ? 0 : 1;
    }
    // 60 of 600 blocks: their rows hold a quarter of the blocks of C or more.
    CHECK(num_found > kSeeds / 8);
    CHECK(num_found < kSeeds * 3 / 4);
  }
  const BlockMatrix none{.n = 16, .m = 4, .index = {}, .values = {}};
  CHECK(prove(none, none, {.n = 16, .m = 4, .index = {}, .values = {}}, {.settings = {.num_blocks = 5}}).is_right());
}

TEST_CASE("proof: rows that are computed again stay within the memory that was given") {
  for (const std::uint32_t m : {1u, 4u, 31u}) {
    for (const std::string pattern : {"uniform", "band", "hub", "heavy column", "hypersparse"}) {
      const std::uint32_t nb = pattern == "hypersparse" ? 400'000 : 600;
      BlockMatrix a = random_matrix(m * nb, m, 9000 / (m > 8 ? 8 : 1), 65535, m);
      BlockMatrix b = random_matrix(m * nb, m, 9000 / (m > 8 ? 8 : 1), 65535, m + 1);
      if (pattern == "hypersparse") {
        for (std::size_t x = 0; x < b.index.size(); ++x) b.index[x].i = a.index[x].j;  // rows that A meets
      }
      for (std::size_t x = 0; pattern == "band" && x < a.index.size(); ++x) {
        a.index[x].j = std::min(nb - 1, a.index[x].i + static_cast<std::uint32_t>(x) % 16);
      }
      for (std::size_t x = 0; pattern == "hub" && x < a.index.size(); x += 15) a.index[x].i = 7;
      for (std::size_t x = 0; pattern == "heavy column" && x < b.index.size(); ++x) {
        if (x % 5 != 0) b.index[x] = {.i = static_cast<std::uint32_t>(x) % nb, .j = 11};
      }
      for (BlockMatrix* matrix : {&a, &b}) remove_duplicates(*matrix);
      const std::uint64_t operand_bytes = a.values.size() * 2 + a.index.size() * 8;
      const std::uint64_t limit = operand_bytes / 3;
      const ProductMatrix c = oracle_multiply(a, b);
      if (pattern == "heavy column" && m > 8) {  // half of B's blocks lie in one column
        CHECK_THROWS_AS(prove(a, b, c, {.settings = {.key = 1, .memory_bytes = limit}}), OutOfMemory);
        continue;
      }
      const std::uint64_t before = array_bytes();
      restart_array_peak();
      const Proven proven = prove(a, b, c, {.settings = {.key = 1, .memory_bytes = limit}});
      const std::uint64_t peak = peak_array_bytes() - before;
      INFO("m " << m << ", " << pattern << ", " << operand_bytes << " bytes an operand, limit " << limit << ", peak "
                << peak);
      CHECK(proven.is_right());
      if (m > 1 || pattern != "hypersparse") CHECK(proven.result.num_exact > 100);  // else no row has two terms
      CHECK(peak <= limit + Proof::resident_bytes(a.header()) + Proof::finish_bytes(a.header(), b.header()));
      ProductMatrix wrong = c;
      std::uint32_t& value = wrong.values[wrong.values.size() / 2];
      value = value == kMaxVal ? 7 : kMaxVal;
      CHECK_FALSE(prove(a, b, wrong, {.settings = {.key = 1, .memory_bytes = limit}}).is_right());
    }
  }
}

TEST_CASE("proof: where operands would be read for hours, the message names a limit with which it takes seconds") {
  constexpr std::uint32_t kSide = 800;
  BlockMatrix a{.n = kSide * 8, .m = 8, .index = {}, .values = {}};
  for (std::uint32_t x = 0; x < 40'000; ++x) a.index.push_back({.i = x / 50, .j = x % 50 * 16 + x / 50 % 16});
  a.values.assign(a.index.size() * 64, 65535);
  const MemorySource source(a, "A");
  StageClock clock;
  const Run run{.clock = clock, .on_progress = kNoProgress, .cancel = nullptr, .num_threads = 1};
  const RowSlots rows(source, 0, run);
  const std::vector<std::uint8_t> chosen(rows.size() * 8, 1);
  const auto compute = [&](std::uint64_t memory_bytes) {
    ExactRows exact({source, source}, rows, rows, chosen.data(), memory_bytes, 4 * memory_bytes, run);
    CHECK(exact.seconds() < 30);
  };
  const std::string message = message_of<OutOfMemory>([&] { compute(20'000); });
  INFO(message);
  CHECK(has(message, "A would be read "));
  const std::uint64_t limit = std::stoull(message.substr(message.rfind('(') + 1));
  CHECK(limit < 4 * 5'440'000);
  compute(limit / 4);
  CHECK(ExactRows::sure_memory_bytes({source, source}, 1 << 20, run) < limit / 2);
}

TEST_CASE("proof: a selection that needs more memory in the end is refused before there is a result") {
  BlockMatrix a = random_matrix(800, 1, 2000, 9, 1);
  BlockMatrix b = a;
  for (std::uint32_t x = 0; x < 800; ++x) b.index[x] = {.i = x, .j = 5};  // a column that needs 21 kB
  remove_duplicates(b);
  const MemorySource left(a, "A");
  const MemorySource right(b, "B");
  StageClock clock;
  const Run run{.clock = clock, .on_progress = kNoProgress, .cancel = nullptr, .num_threads = 1};
  const auto begin = [&](std::uint64_t memory_bytes, const Selection& selection) {
    Proof(left, right, {.memory_bytes = memory_bytes, .limit_bytes = memory_bytes, .selection = selection}, run);
  };
  begin(15'000, {});
  begin(60'000, {.keep = 3});
  CHECK(has(message_of<OutOfMemory>([&] { begin(15'000, {.keep = 3}); }), "block column 5 of B has "));
  CHECK(has(message_of<OutOfMemory>([&] { begin(100, {.at_least = 9}); }), "block row "));
}

TEST_CASE("proof: long work says how long it takes before it starts, reports progress, and can be cancelled") {
  // 2.7e7 pairs: seconds, of which few pass.
  constexpr std::uint32_t kSide = 300;
  constexpr std::uint32_t kBlocks = 8;
  BlockMatrix a{.n = kSide * kBlocks, .m = kBlocks, .index = {}, .values = {}};
  for (std::uint32_t i = 0; i < kSide; ++i) {
    for (std::uint32_t j = 0; j < kSide; ++j) a.index.push_back({.i = i, .j = j});
  }
  a.values.assign(a.index.size() * kBlocks * kBlocks, 3);
  ProductMatrix c{.n = a.n, .m = a.m, .index = a.index, .values = {}};
  c.values.assign(a.values.size(), kMaxVal);
  const MemorySource source(a, "A");
  std::vector<std::string> notices;
  std::atomic<bool> cancel = false;
  StageClock clock;
  std::uint64_t last = 0;
  const ProgressFn on_progress = [&](Stage stage, std::uint64_t done, std::uint64_t total) {
    CHECK(stage == Stage::verify);
    CHECK(notices.size() == 1);
    CHECK(done > last);
    CHECK(total == std::uint64_t{kSide} * kSide * kSide);
    last = done;
    cancel = true;
  };
  const Run run{.clock = clock, .on_progress = on_progress, .cancel = &cancel, .num_threads = 1};
  Proof proof(source, source, {.key = 1, .on_notice = [&](const std::string& n) { notices.push_back(n); }}, run);
  CHECK_FALSE(proof.look(packed(c)));
  CHECK_THROWS_AS(proof.finish(find_in(c), run), Interrupted);
  REQUIRE(notices.size() == 1);
  CHECK(has(notices.front(), "300 block rows hold saturated elements: they are computed again, in about "));
  CHECK(last > 0);
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
  CHECK(has(said, "1 block row is wrong, 1 blocks of 1 of them"));
  CHECK(has(said, "block (" + std::to_string(at.i) + ", " + std::to_string(at.j) + "): 1 of 16 elements differ"));
  CHECK(has(said, "element (1, 2) expected " + std::to_string(c.values[5 * 16 + 6]) + ", found " +
                      std::to_string(wrong.values[5 * 16 + 6])));
  const std::string unseen = prove(a, b, wrong, {.can_find = false}).result.differences;
  INFO(unseen);
  CHECK(
      has(unseen, "block row " + std::to_string(at.i) + ": element rows " + std::to_string(at.i * 4 + 1) + " differ"));
}

TEST_CASE("proof: indices out of range and zero blocks are flaws with their record") {
  const BlockMatrix a = random_matrix(4 * 20, 4, 80, 2047, 1);
  const ProductMatrix c = oracle_multiply(a, a);
  ProductMatrix outside = c;
  outside.index[33].j = 20;
  const Proven found = prove(a, a, outside);
  REQUIRE(found.flaw);
  CHECK(found.flaw->kind == RecordFlaw::Kind::out_of_range);
  CHECK(found.flaw->record == 33);
  outside = c;
  outside.index[0].i = 20;
  CHECK(prove(a, a, outside).flaw);
  ProductMatrix zero = c;
  zero.index.push_back({.i = 3, .j = 7});
  zero.values.insert(zero.values.end(), 16, 0);
  const Proven with_zero = prove(a, a, zero);
  REQUIRE(with_zero.flaw);
  CHECK(with_zero.flaw->kind == RecordFlaw::Kind::zero_block);
  CHECK(with_zero.flaw->record == c.index.size());
  CHECK(prove(a, a, zero, {.settings = {.key = 1, .allow_zero_blocks = true}}).is_right());
}

TEST_CASE("proof: an operand with an index out of range is rejected with its record") {
  const BlockMatrix a = random_matrix(64, 4, 20, 65535, 1);
  BlockMatrix broken = a;
  broken.index[11].j = 16;
  const ProductMatrix c{.n = 64, .m = 4, .index = {}, .values = {}};
  CHECK_THROWS_AS(prove(broken, a, c), FormatError);
  CHECK_THROWS_AS(prove(a, broken, c), FormatError);
}
