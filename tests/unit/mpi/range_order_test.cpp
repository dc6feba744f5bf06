// Which rank has which range of C and which part of the result.
#include "mpi/divide/range_order.hpp"

#include <algorithm>

#include "support/catch.hpp"

namespace {

using namespace spmm::mpi;

}  // namespace

TEST_CASE("ranges in turns: round by round, a rank after the other") {
  const RangeOrder order{.num_ranks = 3, .num_owners = 3};
  for (std::uint32_t range = 0; range < 12; ++range) {
    CHECK(order.rank_of(range, 4) == range % 3);
    CHECK(order.round_of(range, 4) == range / 3);
  }
}

TEST_CASE("consecutive ranges: each owner has its rounds one after the other") {
  const RangeOrder order = order_of_parts(3, 8);
  CHECK(order == RangeOrder{.num_ranks = 3, .num_owners = 3, .is_consecutive = true});
  for (std::uint32_t range = 0; range < 12; ++range) {
    CHECK(order.rank_of(range, 4) == range / 4);
    CHECK(order.round_of(range, 4) == range % 4);
  }
}

TEST_CASE("every part has one owner, owners are spread over the ranks, and their shares differ by one at most") {
  for (std::uint32_t num_ranks = 1; num_ranks <= 9; ++num_ranks) {
    for (std::uint32_t num_parts = 1; num_parts <= 20; ++num_parts) {
      INFO(num_ranks << " ranks, " << num_parts << " parts");
      const RangeOrder order = order_of_parts(num_ranks, num_parts);
      REQUIRE(order.num_owners == std::min(num_ranks, num_parts));
      std::uint32_t next_owner = 0;
      std::uint32_t next_part = 0;
      for (std::uint32_t rank = 0; rank < num_ranks; ++rank) {
        const std::uint32_t owner = order.owner_of_rank(rank);
        if (owner == order.num_owners) continue;  // has none
        CHECK(owner == next_owner++);
        CHECK(order.rank_of_owner(owner) == rank);
        const NumberRange parts = parts_of_owner(order, num_parts, owner);
        CHECK(parts.begin == next_part);
        CHECK(parts.size() >= num_parts / order.num_owners);
        CHECK(parts.size() <= num_parts / order.num_owners + 1);
        next_part = parts.end;
      }
      CHECK(next_owner == order.num_owners);
      CHECK(next_part == num_parts);
    }
  }
}

TEST_CASE("rounds fill the parts of an owner in order, none is left out") {
  for (std::uint32_t num_parts = 1; num_parts <= 9; ++num_parts) {
    for (std::uint32_t num_rounds = 1; num_rounds <= 40; ++num_rounds) {
      for (std::uint32_t step = 1; step <= num_rounds; step += 3) {
        INFO(num_parts << " parts, " << num_rounds << " rounds, " << step << " at once");
        std::uint32_t filled = 0;  // parts that have had something
        for (std::uint32_t begin = 0; begin < num_rounds; begin += step) {
          const NumberRange parts = parts_of_rounds(num_parts, num_rounds, begin, std::min(num_rounds, begin + step));
          CHECK((parts.begin == filled || parts.begin + 1 == filled));
          CHECK(parts.end > parts.begin);
          filled = parts.end;
        }
        CHECK(filled == num_parts);
      }
    }
  }
}

TEST_CASE("sums in rounds: parts of one rank get nearly equal numbers of them") {
  for (std::uint32_t num_ranks = 1; num_ranks <= 9; ++num_ranks) {
    for (std::uint32_t num_parts = 1; num_parts <= 40; ++num_parts) {
      const RangeOrder order = order_of_parts(num_ranks, num_parts);
      const std::uint32_t num_rounds = rounds_for_parts(order, num_parts);
      for (std::uint32_t owner = 0; owner < order.num_owners; ++owner) {
        const std::uint32_t own = parts_of_owner(order, num_parts, owner).size();
        std::vector<std::uint32_t> rounds(own, 0);
        for (std::uint32_t round = 0; round < num_rounds; ++round) {
          const NumberRange parts = parts_of_rounds(own, num_rounds, round, round + 1);
          REQUIRE(parts.size() == 1);
          ++rounds.at(parts.begin);
        }
        const auto [least, most] = std::minmax_element(rounds.begin(), rounds.end());
        INFO(num_ranks << " ranks, " << num_parts << " parts, owner " << owner);
        CHECK(*least >= 1);
        CHECK(*most - *least <= 1);
        CHECK((*least == *most || *least >= 4));
      }
    }
  }
}
