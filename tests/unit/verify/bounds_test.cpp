// Lower bounds of whole rows: every instruction set clears exactly the claims that sums of high bytes do not prove, and
// proofs that use them accept right results and find what is wrong between saturated blocks.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "spmm/saturate.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/oracle.hpp"
#include "unit/verify/bounds_support.hpp"
#include "unit/verify/proof_support.hpp"
#include "verify/rows/host_bounds.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;

std::vector<BoundTiles> all_tiles() {
  std::vector<BoundTiles> all{portable_bound_tiles()};
  for (const BoundTiles& tiles : {avx2_bound_tiles(), avx512_bound_tiles(), amx_bound_tiles()}) {
    if (tiles.add != nullptr) all.push_back(tiles);
  }
  return all;
}

/// Every block of A times every block of B stored, elements around `mean`: sums of `terms` products each.
BlockMatrix full_matrix(std::uint32_t n, std::uint32_t m, std::uint16_t value) {
  BlockMatrix matrix = random_matrix(n, m, (n / m) * (n / m), 1, 1);
  std::fill(matrix.values.begin(), matrix.values.end(), value);
  return matrix;
}

ProvenHow panels(std::uint64_t key = 1) {
  return {.settings = {.key = key, .way = BoundWay::panels}};
}

std::size_t block_at(const ProductMatrix& c, BlockIndex at) {
  return static_cast<std::size_t>(std::find(c.index.begin(), c.index.end(), at) - c.index.begin());
}

void erase_block(ProductMatrix& c, BlockIndex at) {
  const std::size_t x = block_at(c, at);
  const auto elements = static_cast<std::ptrdiff_t>(std::size_t{c.m} * c.m);
  const auto first = c.values.begin() + static_cast<std::ptrdiff_t>(x) * elements;
  c.values.erase(first, first + elements);
  c.index.erase(c.index.begin() + static_cast<std::ptrdiff_t>(x));
}

}  // namespace

TEST_CASE("bounds: claims that stay are those that high bytes prove, every instruction set and side") {
  for (const BoundCase& c : bound_cases()) {
    const BoundOperands operands(c);
    for (const BoundTiles& tiles : all_tiles()) {
      const std::vector<std::uint32_t> expected = operands.expected(operands.claims(), tiles.bits_a, tiles.bits_b);
      for (const std::uint64_t memory : {std::uint64_t{0}, operands.small_memory()}) {
        INFO("n " << c.n << ", m " << c.m << ", largest " << c.largest << ", bits " << tiles.bits_a << " "
                  << tiles.bits_b << ", memory " << memory);
        std::vector<std::uint32_t> claims = operands.claims();
        REQUIRE(operands.prove(
            claims, [&](const BoundTask& task, const Run& run) { return prove_on_host(task, tiles, memory, run); }));
        CHECK(claims == expected);
      }
    }
  }
}

TEST_CASE("bounds: a sum one below the limit clears its claim, one that meets it does not") {
  const auto [a, b] = operands_at_limit();
  const BoundOperands operands(a, b);
  std::vector<std::uint32_t> only_reached(operands.all_claims().size(), 0);
  only_reached[5 * BoundTask::words_per_row(8)] = 0b110;
  CHECK(operands.expected(operands.all_claims(), 8, 8) == only_reached);
  for (const BoundTiles& tiles : all_tiles()) {
    INFO("bits " << tiles.bits_a << " " << tiles.bits_b);
    std::vector<std::uint32_t> claims = operands.all_claims();
    REQUIRE(operands.prove(claims,
                           [&](const BoundTask& task, const Run& run) { return prove_on_host(task, tiles, 0, run); }));
    CHECK(claims == operands.expected(operands.all_claims(), tiles.bits_a, tiles.bits_b));
  }
}

TEST_CASE("bounds: too little memory is said so, and clears nothing") {
  const BoundOperands operands({.n = 64, .m = 4, .blocks = 100, .largest = 65535});
  std::vector<std::uint32_t> claims = operands.claims();
  const std::vector<std::uint32_t> before = claims;
  CHECK_FALSE(operands.prove(claims, [&](const BoundTask& task, const Run& run) {
    return prove_on_host(task, choose_bound_tiles(), 1000, run);
  }));
  CHECK(claims == before);
}

TEST_CASE("bounds: sums are cut before 32 bits overflow") {
  constexpr std::size_t kElements = kBoundTileRows * kBoundTileColumns;
  for (const BoundTiles& tiles : all_tiles()) {
    INFO(tiles.bits_a << " " << tiles.bits_b);
    const std::vector<std::uint8_t> a(kBoundTileRows * kBoundDepth,
                                      static_cast<std::uint8_t>((1u << tiles.bits_a) - 1));
    const std::vector<std::uint8_t> b(kBoundTileColumns * kBoundDepth,
                                      static_cast<std::uint8_t>((1u << tiles.bits_b) - 1));
    const AlignedArray<std::uint32_t> sums(kElements);
    std::fill(sums.begin(), sums.end(), 0);
    sums[7] = BoundScale::kDone;
    std::uint64_t exact = 0;
    for (std::size_t calls = 1; calls <= 2 * BoundScale::kMaxTerms / kBoundDepth + 1; ++calls) {
      tiles.add(a.data(), kBoundDepth, b.data(), kBoundStrip * kBoundDepth, sums.data());
      exact += kBoundDepth * a[0] * b[0];
      const bool cuts = calls % (BoundScale::kMaxTerms / kBoundDepth) == 0;
      const bool reaches = tiles.reach(sums.data(), BoundScale::kDone, cuts ? BoundScale::kDone : 0);
      CHECK(reaches == (exact >= BoundScale::kDone));
      if (cuts) CHECK(sums[9] == std::min<std::uint64_t>(exact, BoundScale::kDone));
    }
    CHECK(sums[7] >= BoundScale::kDone);
    sums[kElements - 1] = BoundScale::kDone - 1;
    CHECK_FALSE(tiles.reach(sums.data(), BoundScale::kDone, 0));
  }
}

TEST_CASE("bounds: the limit is the least sum of high parts that proves saturation") {
  for (const std::uint32_t largest : {1u, 100u, 255u, 256u, 2047u, 65535u}) {
    for (const std::uint32_t bits : {7u, 8u}) {
      const BoundScale scale = BoundScale::of(largest, largest, bits, 8);
      const std::uint32_t shift = scale.shift_a + scale.shift_b;
      INFO(largest << " " << bits);
      CHECK(largest >> scale.shift_a < 1u << bits);
      CHECK(largest >> scale.shift_b < 1u << 8);
      CHECK(std::uint64_t{scale.limit} << shift >= kMaxVal);
      CHECK(std::uint64_t{scale.limit - 1} << shift < kMaxVal);
      CHECK(scale.limit <= BoundScale::kDone);
    }
  }
}

TEST_CASE("proof: bounds of whole rows decide results that saturate everywhere") {
  for (const std::uint32_t m : {1u, 3u, 4u, 8u, 16u}) {
    INFO(m);
    const BlockMatrix a = full_matrix(48, m, 60000);
    const ProductMatrix c = oracle_multiply(a, a);
    const Proven proven = prove(a, a, c, panels());
    CHECK(proven.is_right());
    CHECK(proven.result.num_bounded == c.index.size());
    CHECK(proven.result.num_exact == 48 / m);
    const Proven by_pairs = prove(a, a, c, {.settings = {.key = 1, .way = BoundWay::pairs}});
    CHECK(by_pairs.is_right());
    CHECK(by_pairs.result.num_bounded == 0);
    ProductMatrix wrong = c;
    wrong.values[wrong.values.size() / 2] = kMaxVal - 1;
    CHECK_FALSE(prove(a, a, wrong, panels()).is_right());
    wrong = c;
    erase_block(wrong, c.index[c.index.size() / 3]);
    CHECK_FALSE(prove(a, a, wrong, panels()).is_right());
  }
}

TEST_CASE("proof: a block that is wrong between saturated ones is found, whatever hides it") {
  constexpr std::uint32_t kM = 4;
  constexpr std::size_t kElements = std::size_t{kM} * kM;
  constexpr std::uint32_t kN = 160;
  const BlockMatrix a = full_matrix(kN, kM, 60000);
  BlockMatrix b = full_matrix(kN, kM, 60000);
  const auto set = [&](std::uint32_t i, std::uint32_t j, std::uint32_t element, std::uint16_t value) {
    const auto x = static_cast<std::size_t>(std::find(b.index.begin(), b.index.end(), BlockIndex{.i = i, .j = j}) -
                                            b.index.begin());
    b.values[x * kElements + element] = value;
  };
  // Column 7 saturates but for element column 2, whose sums are 60000 * 71582 + 60000 * 0 ...: just below kMaxVal.
  for (std::uint32_t i = 0; i < kN / kM; ++i) {
    for (std::uint32_t t = 0; t < kM; ++t) set(i, 7, t * kM + 2, 0);
  }
  set(0, 7, 2, 65535);
  set(1, 7, 2, 6047);  // 60000 * (65535 + 6047) = 2^32 - 1 - 47,295
  // Column 9 is absent.
  for (std::size_t x = b.index.size(); x-- > 0;) {
    if (b.index[x].j != 9) continue;
    const auto first = b.values.begin() + static_cast<std::ptrdiff_t>(x * kElements);
    b.values.erase(first, first + static_cast<std::ptrdiff_t>(kElements));
    b.index.erase(b.index.begin() + static_cast<std::ptrdiff_t>(x));
  }
  const ProductMatrix c = oracle_multiply(a, b);
  REQUIRE(c.values[block_at(c, {.i = 3, .j = 7}) * kElements + 2] == kMaxVal - 47'295);
  REQUIRE(block_at(c, {.i = 3, .j = 9}) == c.index.size());
  const Proven right = prove(a, b, c, panels());
  CHECK(right.is_right());
  CHECK(right.result.num_bounded == std::uint64_t{kN / kM} * (kN / kM - 2));
  ProductMatrix claimed = c;  // just below, claimed to be saturated: the whole block is, then
  for (std::uint32_t r = 0; r < kM; ++r)
    claimed.values[block_at(c, {.i = 3, .j = 7}) * kElements + r * kM + 2] = kMaxVal;
  const Proven found = prove(a, b, claimed, panels());
  CHECK(found.result.num_wrong == 1);
  CHECK(found.result.differences.find("block (3, 7)") != std::string::npos);
  ProductMatrix extra = c;  // absent, claimed to be saturated
  extra.index.push_back({.i = 5, .j = 9});
  extra.values.insert(extra.values.end(), kElements, kMaxVal);
  CHECK(prove(a, b, extra, panels()).result.num_wrong == 1);
  ProductMatrix other = c;  // neither saturated nor right
  other.values[block_at(c, {.i = 6, .j = 7}) * kElements + 6] -= 1;
  CHECK(prove(a, b, other, panels()).result.num_wrong == 1);
  ProductMatrix without = c;
  erase_block(without, {.i = 2, .j = 7});
  CHECK(prove(a, b, without, panels()).result.num_wrong == 1);
}

TEST_CASE("proof: a device that cannot serve leaves the bounds to the host, what it does not prove is summed") {
  const BlockMatrix a = full_matrix(96, 8, 50000);
  const ProductMatrix c = oracle_multiply(a, a);
  ProductMatrix wrong = c;
  wrong.values[17] = 5;
  const auto with = [](const BoundProver& prover) {
    ProvenHow how = panels();
    how.settings.device = {.prove = prover};
    return how;
  };
  const ProvenHow none = with([](const BoundTask&, const Run&) { return false; });
  CHECK(prove(a, a, c, none).is_right());
  CHECK_FALSE(prove(a, a, c, none).result.bounded_by_device);
  CHECK(prove(a, a, c, none).result.num_bounded == c.index.size());
  CHECK_FALSE(prove(a, a, wrong, none).is_right());
  ProvenHow little = none;
  little.settings.memory_bytes = 40'000;
  CHECK(prove(a, a, c, little).is_right());
  CHECK(prove(a, a, c, little).result.num_bounded == 0);
  CHECK_FALSE(prove(a, a, wrong, little).is_right());
  BlockMatrix low = a;  // the same C claims too much in every row
  for (std::size_t x = 0; x < low.index.size(); ++x) {
    if (low.index[x].j != 5) continue;
    const auto first = low.values.begin() + static_cast<std::ptrdiff_t>(x * 64);
    std::fill(first, first + 64, 1);
  }
  for (const ProvenHow& how : {panels(), none, little}) CHECK(prove(a, low, c, how).result.num_wrong == 12);
  const ProvenHow half = with([](const BoundTask& task, const Run&) {
    for (std::uint32_t& word : task.claims) word &= 0x5555'5555u;
    return true;
  });
  CHECK(prove(a, a, c, half).is_right());
  CHECK(prove(a, a, c, half).result.bounded_by_device);
  CHECK(prove(a, a, c, half).result.num_bounded == c.index.size() / 2);
  CHECK_FALSE(prove(a, a, wrong, half).is_right());
}
