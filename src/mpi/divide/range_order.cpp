// The order of ranges of C and the ranks that own them.
#include "mpi/divide/range_order.hpp"

#include <algorithm>

namespace spmm::mpi {
namespace {

/// number * whole / of in 64 bits.
std::uint32_t scaled(std::uint32_t number, std::uint32_t whole, std::uint32_t of) {
  return static_cast<std::uint32_t>(std::uint64_t{number} * whole / of);
}

}  // namespace

std::uint32_t RangeOrder::owner_of_rank(std::uint32_t rank) const {
  // The first owner whose rank is not below this one.
  const auto owner = static_cast<std::uint32_t>((std::uint64_t{rank} * num_owners + num_ranks - 1) / num_ranks);
  return owner < num_owners && rank_of_owner(owner) == rank ? owner : num_owners;
}

RangeOrder order_of_parts(std::uint32_t num_ranks, std::uint32_t num_parts) {
  return {.num_ranks = num_ranks, .num_owners = std::min(num_ranks, num_parts), .is_consecutive = true};
}

NumberRange parts_of_owner(const RangeOrder& order, std::uint32_t num_parts, std::uint32_t owner) {
  return {.begin = scaled(owner, num_parts, order.num_owners), .end = scaled(owner + 1, num_parts, order.num_owners)};
}

std::uint32_t rounds_for_parts(const RangeOrder& order, std::uint32_t num_parts) {
  constexpr std::uint32_t kRoundsOfPart = 4;  // where not all owners have as many parts: within a quarter of each other
  const bool is_even = num_parts % order.num_owners == 0;
  return is_even ? num_parts / order.num_owners : kRoundsOfPart * (num_parts / order.num_owners + 1);
}

NumberRange parts_of_rounds(std::uint32_t num_parts, std::uint32_t num_rounds, std::uint32_t begin, std::uint32_t end) {
  const std::uint32_t first = scaled(begin, num_parts, num_rounds);
  return {.begin = first, .end = std::max(first + 1, scaled(end, num_parts, num_rounds))};
}

}  // namespace spmm::mpi
