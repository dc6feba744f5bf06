// Order over pieces that come in any order.
#include "verify/proof.hpp"

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "support/catch.hpp"

namespace {

using namespace spmm;

constexpr std::uint64_t kRecordBytes = 12;  // of side 1

std::vector<std::byte> records_at(const std::vector<BlockIndex>& places) {
  std::vector<std::byte> bytes(places.size() * kRecordBytes);
  for (std::size_t x = 0; x < places.size(); ++x) std::memcpy(bytes.data() + x * kRecordBytes, &places[x], kIndexBytes);
  return bytes;
}

/// 60 blocks that ascend.
std::vector<BlockIndex> ascending() {
  std::vector<BlockIndex> places;
  for (std::uint32_t x = 0; x < 60; ++x) places.push_back({.i = x / 7, .j = 3 * x});
  return places;
}

/// Adds pieces of `size` records in a random order, and closes; the first flaw.
std::optional<RecordFlaw> add_pieces(RecordOrder& order, const std::vector<BlockIndex>& places, std::size_t size,
                                     std::uint64_t seed) {
  const std::vector<std::byte> bytes = records_at(places);
  std::vector<std::size_t> starts;
  for (std::size_t x = 0; x < places.size(); x += size) starts.push_back(x);
  std::mt19937_64 random(seed);
  std::shuffle(starts.begin(), starts.end(), random);
  for (const std::size_t x : starts) {
    const std::size_t count = std::min(size, places.size() - x);
    const auto flaw = order.add(x, std::span(bytes).subspan(x * kRecordBytes, count * kRecordBytes));
    if (flaw) return flaw;
  }
  return order.close();
}

}  // namespace

TEST_CASE("record order: a block twice and a step back are found at their record, also between pieces") {
  for (const std::size_t size : {1, 2, 7, 60}) {
    for (std::size_t at = 1; at < 60; ++at) {
      std::vector<BlockIndex> twice = ascending();
      twice[at] = twice[at - 1];
      RecordOrder order(kRecordBytes);
      const auto flaw = add_pieces(order, twice, size, at);
      REQUIRE(flaw);
      CHECK(flaw->record == at);
      CHECK(flaw->kind == RecordFlaw::Kind::twice);
      std::vector<BlockIndex> back = ascending();
      std::swap(back[at], back[at - 1]);
      RecordOrder other(kRecordBytes);
      const auto found = add_pieces(other, back, size, at);
      REQUIRE(found);
      CHECK(found->kind == RecordFlaw::Kind::out_of_order);
    }
  }
}

TEST_CASE("record order: gaps and pieces that come twice are not whole") {
  const std::vector<std::byte> bytes = records_at(ascending());
  const auto piece = [&](std::size_t first, std::size_t count) {
    return std::span(bytes).subspan(first * kRecordBytes, count * kRecordBytes);
  };
  using Pieces = std::vector<std::pair<std::size_t, std::size_t>>;
  for (const Pieces& pieces : {Pieces{{0, 20}, {30, 30}}, Pieces{{10, 50}}, Pieces{{0, 30}, {0, 30}, {30, 30}}}) {
    RecordOrder order(kRecordBytes);
    for (const auto& [first, count] : pieces) CHECK_FALSE(order.add(first, piece(first, count)));
    static_cast<void>(order.close());
    CHECK_FALSE(order.is_whole(60));
  }
}
