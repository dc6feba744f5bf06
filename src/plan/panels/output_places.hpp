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
  explicit OutputPlaces(std::size_t num_pieces);

  /// Values: once for each piece.
  void set_count(std::size_t piece, std::uint64_t num_blocks);
  void set_end(std::size_t piece);

  /// Blocks in front of the piece; nothing until all pieces before it are counted.
  [[nodiscard]] std::optional<std::uint64_t> place(std::size_t piece) const;

  /// Whether all pieces before it have been handed over.
  [[nodiscard]] bool is_next(std::size_t piece) const;

 private:
  struct Entry {
    std::optional<std::uint64_t> place{};
    std::optional<std::uint64_t> count{};
    bool has_ended = false;
    bool all_before_ended = false;
  };
  std::vector<Entry> entries_;
};

}  // namespace spmm::plan
