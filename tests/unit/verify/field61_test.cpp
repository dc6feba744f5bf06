// The arithmetic of the proof against 128-bit integers, in every variant of its loops.
#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "base/run/run.hpp"
#include "spmm/saturate.hpp"
#include "support/catch.hpp"
#include "verify/sums/block_sums.hpp"
#include "verify/sums/field61.hpp"
#include "verify/sums/random_columns.hpp"

namespace {

using namespace spmm;
using Wide = unsigned __int128;

constexpr std::uint64_t kPrime = 2305843009213693951u;

/// Numbers around every border, and random ones.
std::vector<std::uint64_t> interesting(bool below_prime) {
  std::vector<std::uint64_t> all = {0, 1, 2, kPrime - 1, kPrime - 2, kPrime / 2, 1u << 31, 0xFFFF'FFFFu};
  if (!below_prime) {
    for (const std::uint64_t x : {kPrime, kPrime + 1, 2 * kPrime, 2 * kPrime + 1, 7 * kPrime, ~std::uint64_t{0}})
      all.push_back(x);
  }
  std::mt19937_64 random(5);
  for (int x = 0; x < 200; ++x) all.push_back(below_prime ? random() % kPrime : random());
  return all;
}

template <class T>
std::vector<std::byte> random_block(std::uint32_t m, std::mt19937_64& random, bool largest) {
  std::vector<std::byte> bytes(std::size_t{m} * m * sizeof(T));
  for (std::size_t e = 0; e < std::size_t{m} * m; ++e) {
    const T value = largest ? static_cast<T>(~T{0}) : static_cast<T>(random());
    std::memcpy(bytes.data() + e * sizeof value, &value, sizeof value);
  }
  return bytes;
}

/// One call of `sum` with as many blocks as it takes, against the definition.
template <class T>
void check_sums(SumBlocks sum, std::uint32_t m, std::uint32_t count, bool largest, std::mt19937_64& random) {
  std::vector<std::vector<std::byte>> blocks;
  std::vector<std::vector<std::uint64_t>> vectors;
  std::vector<BlockTerm> terms;
  for (std::uint32_t t = 0; t < count; ++t) {
    blocks.push_back(random_block<T>(m, random, largest));
    vectors.emplace_back(m);
    for (std::uint64_t& x : vectors.back()) x = largest ? kPrime - 1 : random() % kPrime;
  }
  for (std::uint32_t t = 0; t < count; ++t) terms.push_back({.values = blocks[t].data(), .vector = vectors[t].data()});
  std::vector<std::uint64_t> sums(m + 1, 77);
  sum(terms.data(), count, m, sums.data());
  for (std::uint32_t r = 0; r < m; ++r) {
    Wide expected = 0;
    for (std::uint32_t t = 0; t < count; ++t) {
      for (std::uint32_t c = 0; c < m; ++c) {
        T value = 0;
        std::memcpy(&value, blocks[t].data() + (std::size_t{r} * m + c) * sizeof value, sizeof value);
        expected = (expected + Wide{value} * vectors[t][c]) % kPrime;
      }
    }
    REQUIRE(sums[r] == static_cast<std::uint64_t>(expected));
  }
  CHECK(sums[m] == 77);  // nothing behind the end
}

void check_variant(const BlockSums& sums) {
  if (sums.u32 == nullptr) return;
  std::mt19937_64 random(11);
  for (std::uint32_t m = 1; m <= 64; ++m) {
    INFO("m " << m);
    for (const std::uint32_t count : {1u, 3u, max_block_terms(m)}) {
      for (const bool largest : {false, true}) {
        if (count > 100 && m > 1) continue;
        check_sums<std::uint16_t>(sums.u16, m, count, largest, random);
        check_sums<std::uint32_t>(sums.u32, m, count, largest, random);
      }
    }
    const std::vector<std::byte> block = random_block<std::uint16_t>(m, random, false);
    std::vector<std::uint64_t> rows(m + 1, 77);
    sums.rows_u16(block.data(), m, rows.data());
    for (std::uint32_t r = 0; r < m; ++r) {
      std::uint64_t expected = 0;
      for (std::uint32_t c = 0; c < m; ++c) {
        std::uint16_t value = 0;
        std::memcpy(&value, block.data() + (std::size_t{r} * m + c) * 2, 2);
        expected += value;
      }
      CHECK(rows[r] == expected);
    }
    CHECK(rows[m] == 77);
  }
}

}  // namespace

TEST_CASE("field: every operation as with 128-bit integers") {
  for (const std::uint64_t x : interesting(false)) CHECK(reduce61(x) == x % kPrime);
  for (const std::uint64_t x : interesting(true)) {
    for (const std::uint64_t y : interesting(true)) {
      REQUIRE(add61(x, y) == static_cast<std::uint64_t>((Wide{x} + y) % kPrime));
      REQUIRE(subtract61(x, y) == static_cast<std::uint64_t>((Wide{x} + kPrime - y) % kPrime));
      REQUIRE(multiply61(x, y) == static_cast<std::uint64_t>(Wide{x} * y % kPrime));
      REQUIRE(reduce61((Wide{x} << 63) + y) == static_cast<std::uint64_t>(((Wide{x} << 63) + y) % kPrime));
    }
    if (x != 0) CHECK(multiply61(x, invert61(x)) == 1);
  }
  CHECK(power61(3, 0) == 1);
  CHECK(power61(3, 5) == 243);
}

TEST_CASE("field: sums of blocks times vectors, portable") {
  check_variant(portable_block_sums());
}

TEST_CASE("field: sums of blocks times vectors, AVX2 where there is AVX2") {
  check_variant(avx2_block_sums());
}

TEST_CASE("field: sums of blocks times vectors, AVX-512 where there is AVX-512") {
  check_variant(avx512_block_sums());
}

TEST_CASE("field: a saturated element is found wherever it lies") {
  for (const BlockSums& sums : {portable_block_sums(), avx2_block_sums(), avx512_block_sums()}) {
    if (sums.is_saturated == nullptr) continue;
    for (std::uint32_t count = 1; count <= 70; ++count) {
      std::vector<std::uint32_t> values(count + 1, kMaxVal - 1);
      values[count] = kMaxVal;  // behind the end
      const auto* const bytes = reinterpret_cast<const std::byte*>(values.data());
      CHECK_FALSE(sums.is_saturated(bytes, count));
      for (std::uint32_t e = 0; e < count; ++e) {
        values[e] = kMaxVal;
        CHECK(sums.is_saturated(bytes, count));
        values[e] = 0;
      }
    }
  }
}

TEST_CASE("random columns: a function of key, row and column, the same with and without a table") {
  const RandomColumns one(1);
  const RandomColumns two(2);
  std::set<std::uint64_t> seen;
  for (std::uint64_t c = 0; c < 2000; ++c) {
    for (std::uint32_t q = 0; q < 4; ++q) {
      CHECK(one(c, q) < kPrime);
      seen.insert(one(c, q));
      seen.insert(two(c, q));
    }
  }
  CHECK(seen.size() == 2000 * 4 * 2);
  StageClock clock;
  const ProgressFn no_progress;
  const Run run{.clock = clock, .on_progress = no_progress, .cancel = nullptr};
  const RandomVectors table(one, 2, 120, 3, true, run);
  const RandomVectors computed(one, 2, 120, 3, false, run);
  std::uint64_t place[3];
  for (std::uint32_t j = 0; j < 40; ++j) {
    const std::uint64_t* const x = table.at(j, nullptr);
    const std::uint64_t* const y = computed.at(j, place);
    CHECK(std::equal(x, x + 3, y));
    CHECK(x[1] == one(3 * j + 1, 2));
  }
  CHECK(fresh_proof_key() != fresh_proof_key());
}
