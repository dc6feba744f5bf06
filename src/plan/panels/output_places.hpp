// Where the records of pieces that are computed in any order belong in the output. Pure: no threads, no waiting.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace spmm::plan {

/// The pieces of a result in the order of its rows. A piece goes through two points: its blocks are counted, and all
/// of them have been handed over.
class OutputPlaces {
 public:
  explicit OutputPlaces(std::size_t num_pieces) : counts_(num_pieces), has_ended_(num_pieces) {}

  /// Values: once for each piece.
  void set_count(std::size_t piece, std::uint64_t num_blocks) {
    counts_.at(piece) = num_blocks;
    while (places_.size() <= counts_.size() && counts_[places_.size() - 1]) {
      places_.push_back(places_.back() + *counts_[places_.size() - 1]);
    }
  }
  void set_end(std::size_t piece) {
    has_ended_.at(piece) = true;
    while (next_ < has_ended_.size() && has_ended_[next_]) ++next_;
  }

  /// Blocks in front of the piece; nothing until all pieces before it are counted.
  [[nodiscard]] std::optional<std::uint64_t> place(std::size_t piece) const {
    return piece < places_.size() ? std::optional(places_[piece]) : std::nullopt;
  }

  /// Whether all pieces before it have been handed over.
  [[nodiscard]] bool is_next(std::size_t piece) const { return piece <= next_; }

 private:
  std::vector<std::optional<std::uint64_t>> counts_;
  std::vector<std::uint64_t> places_{0};  ///< of the pieces before which all are counted, and behind the last one
  std::vector<bool> has_ended_;
  std::size_t next_ = 0;  ///< the first piece that has not ended
};

}  // namespace spmm::plan
