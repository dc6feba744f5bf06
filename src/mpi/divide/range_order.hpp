// Which rank has which range of C, and which rank writes which part of it. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

namespace spmm::mpi {

/// Consecutive parts of a result, or consecutive ranges of C.
struct NumberRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;

  [[nodiscard]] std::uint32_t size() const { return end - begin; }
  friend bool operator==(const NumberRange&, const NumberRange&) = default;
};

/// How the ranges of a division, num_rounds for each rank that has any, belong to ranks and rounds. Ranges are numbered
/// by their rows.
struct RangeOrder {
  std::uint32_t num_ranks = 1;
  std::uint32_t num_owners = 1;  ///< ranks that have ranges; all of them where ranges are dealt out in turns
  /// Consecutive: the ranges of a rank follow each other, as the files do that it writes. Else in turns: range x is
  /// that of rank x % num_ranks, as ranks write one file round by round.
  bool is_consecutive = false;

  [[nodiscard]] std::uint32_t rank_of(std::uint32_t range, std::uint32_t num_rounds) const {
    return is_consecutive ? rank_of_owner(range / num_rounds) : range % num_ranks;
  }
  [[nodiscard]] std::uint32_t round_of(std::uint32_t range, std::uint32_t num_rounds) const {
    return is_consecutive ? range % num_rounds : range / num_ranks;
  }
  /// Owners are spread evenly over the ranks, and so over the machines. Values: owner < num_owners.
  [[nodiscard]] std::uint32_t rank_of_owner(std::uint32_t owner) const {
    return static_cast<std::uint32_t>(std::uint64_t{owner} * num_ranks / num_owners);
  }
  /// num_owners for a rank that has no ranges.
  [[nodiscard]] std::uint32_t owner_of_rank(std::uint32_t rank) const;

  friend bool operator==(const RangeOrder&, const RangeOrder&) = default;
};

/// Ranks with consecutive ranges, as many of them as have a part to write.
RangeOrder order_of_parts(std::uint32_t num_ranks, std::uint32_t num_parts);

/// The parts that an owner writes: all have as many, or one more than others. Values: num_parts >= order.num_owners.
NumberRange parts_of_owner(const RangeOrder& order, std::uint32_t num_parts, std::uint32_t owner);

/// Rounds that leave no owner a part without one, and parts of nearly equal numbers of rounds.
std::uint32_t rounds_for_parts(const RangeOrder& order, std::uint32_t num_parts);

/// Which of its own num_parts parts an owner fills in its rounds [begin, end): several, if there are fewer rounds
/// than parts; the last one of earlier rounds may go on. Shapes: over all rounds each part once or more, in order.
NumberRange parts_of_rounds(std::uint32_t num_parts, std::uint32_t num_rounds, std::uint32_t begin, std::uint32_t end);

}  // namespace spmm::mpi
