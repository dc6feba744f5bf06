// Parts of the inner dimension: when they are taken, and how their products are added up.
#include "mpi/divide/inner_split.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

#include "base/records/head.hpp"
#include "mpi/divide/result_merge.hpp"
#include "support/catch.hpp"

namespace {

using namespace spmm::mpi;
using spmm::BlockIndex;
using Blocks = std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint32_t>>;

constexpr std::uint64_t kGigabyte = 1'000'000'000;

/// A^T A of m = 8: many inner indices, 64 block rows and columns, ten blocks of A and B for each inner index.
SplitCounts gram(std::uint32_t num_ranks) {
  return {.num_ranks = num_ranks,
          .m = 8,
          .limit_bytes = 4 * kGigabyte,
          .stored_bytes = 140,
          .pairs_by_rows = 10'000'000 / num_ranks,
          .b_blocks_by_rows = 900'000,
          .pairs_by_inner = 10'000'000 / num_ranks,
          .a_blocks_by_inner = 1'000'000 / num_ranks,
          .b_blocks_by_inner = 1'000'000 / num_ranks,
          .b_blocks_at_home = 1'000'000 / num_ranks,
          .partial_c_blocks = 64 * 64,
          .merged_c_blocks = 64 * 64,
          .round_c_blocks = 64 * 64};
}

/// S1: 100,000 blocks, C of 2^20 blocks.
SplitCounts wide_result(std::uint32_t num_ranks) {
  SplitCounts counts = gram(num_ranks);
  counts.b_blocks_by_rows = 100'000;
  counts.b_blocks_by_inner = counts.a_blocks_by_inner = counts.b_blocks_at_home = 100'000 / num_ranks;
  counts.partial_c_blocks = counts.merged_c_blocks = counts.round_c_blocks = 1u << 20;
  return counts;
}

std::vector<std::byte> packed(const Blocks& blocks) {
  std::vector<std::byte> bytes;
  for (const auto& [at, values] : blocks) {
    const std::size_t before = bytes.size();
    bytes.resize(before + spmm::kIndexBytes + values.size() * 4);
    spmm::write_index(&bytes[before], BlockIndex{.i = at.first, .j = at.second});
    std::memcpy(&bytes[before + spmm::kIndexBytes], values.data(), values.size() * 4);
  }
  return bytes;
}

std::vector<std::byte> sum(const std::vector<Blocks>& parts, std::uint32_t m) {
  std::vector<std::vector<std::byte>> bytes;
  for (const Blocks& part : parts) bytes.push_back(packed(part));
  return sum_of_results(std::vector<std::span<const std::byte>>(bytes.begin(), bytes.end()), m);
}

}  // namespace

TEST_CASE("a small result of a long inner dimension is split by it, a large result by its rows") {
  for (const std::uint32_t num_ranks : {2u, 3u, 8u, 1024u}) {
    CHECK(splits_inner(gram(num_ranks)));
    CHECK_FALSE(splits_inner(wide_result(num_ranks)));
  }
  CHECK_FALSE(splits_inner(gram(1)));
}

TEST_CASE("one heavy row of C is split, however large B is") {
  SplitCounts counts = gram(4);
  counts.b_blocks_by_rows = counts.b_blocks_by_inner;
  CHECK_FALSE(splits_inner(counts));  // nothing to gain
  counts.pairs_by_rows *= 4;
  CHECK(splits_inner(counts));
}

TEST_CASE("the bytes of partial products weigh against fetched blocks") {
  SplitCounts counts = gram(2);
  bool before = true;
  for (counts.partial_c_blocks = 1000; counts.partial_c_blocks < 100'000'000; counts.partial_c_blocks *= 2) {
    counts.limit_bytes = 1000 * kGigabyte;
    counts.merged_c_blocks = counts.partial_c_blocks;
    const bool now = splits_inner(counts);
    CHECK((before || !now));
    before = now;
  }
  CHECK_FALSE(before);
}

TEST_CASE("nothing that passes the memory limit is split") {
  const SplitCounts good = gram(4);
  for (std::uint64_t SplitCounts::*const count :
       {&SplitCounts::a_blocks_by_inner, &SplitCounts::b_blocks_by_inner, &SplitCounts::b_blocks_at_home}) {
    SplitCounts counts = good;
    counts.*count = counts.limit_bytes / 2 / 140 - 500'000;
    CHECK(fits_inner(counts));
    counts.*count = counts.limit_bytes / 2 / 140 + 1;
    CHECK_FALSE(fits_inner(counts));
    CHECK_FALSE(splits_inner(counts));
  }
  SplitCounts partial = good;
  partial.partial_c_blocks = partial.limit_bytes / 4 / 264;
  CHECK(fits_inner(partial));
  ++partial.partial_c_blocks;
  CHECK_FALSE(fits_inner(partial));
  SplitCounts round = good;
  round.round_c_blocks = round.limit_bytes / 8 / 264 + 1;
  CHECK_FALSE(fits_inner(round));
}

TEST_CASE("partial products are added with saturation; absent blocks are zeros") {
  const std::uint32_t most = 0xFFFF'FFFFu;
  const Blocks x = {{{0, 1}, {1, 0, most, 5}}, {{2, 0}, {0, 0, 0, 1}}};
  const Blocks y = {{{0, 0}, {7, 0, 0, 0}}, {{0, 1}, {2, 3, 1, most - 5}}, {{4294967294u, 3}, {9, 9, 9, 9}}};
  const Blocks z = {{{0, 1}, {0, 0, most, 1}}};
  const Blocks all = {
      {{0, 0}, {7, 0, 0, 0}}, {{0, 1}, {3, 3, most, most}}, {{2, 0}, {0, 0, 0, 1}}, {{4294967294u, 3}, {9, 9, 9, 9}}};
  CHECK(sum({x, y, z}, 2) == packed(all));
  CHECK(sum({z, y, x}, 2) == packed(all));
  CHECK(sum({x, {}, y, z, {}}, 2) == packed(all));
  CHECK(sum({x}, 2) == packed(x));
  CHECK(sum({{}, {}}, 2).empty());
  CHECK(sum({}, 2).empty());
}

TEST_CASE("any number of parts in any order has the sum in 64 bits, clamped at the end") {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<Blocks> parts(1 + random() % 9);
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> exact;
    for (Blocks& part : parts) {
      for (std::uint32_t block = 0; block < random() % 40; ++block) {
        const std::pair at(random() % 5, random() % 8);
        if (part.contains(at)) continue;
        const auto value = static_cast<std::uint32_t>(random() >> random() % 32);
        part[at] = {value};
        exact[at] += value;
      }
    }
    Blocks clamped;
    for (const auto& [at, value] : exact) {
      clamped[at] = {static_cast<std::uint32_t>(std::min<std::uint64_t>(value, 0xFFFF'FFFFu))};
    }
    CHECK(sum(parts, 1) == packed(clamped));
    std::shuffle(parts.begin(), parts.end(), random);
    CHECK(sum(parts, 1) == packed(clamped));
  }
}
