// Where the records of pieces that are computed in any order belong in the output. Pure: no threads, no waiting.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace spmm::plan {

/// The pieces of a result whose ranges grow in order. A piece goes through two points: its blocks are counted, and all
/// of them have been handed over.
class OutputPlaces {
 public:
  /// Shapes: ranges[piece] = the range of each piece; those of a range in the order of its rows.
  explicit OutputPlaces(const std::vector<std::uint32_t>& ranges);

  /// Values: once for each piece.
  void set_count(std::size_t piece, std::uint64_t num_blocks);
  void set_end(std::size_t piece);

  /// Blocks in front of the piece in its range; nothing until all pieces before it are counted.
  [[nodiscard]] std::optional<std::uint64_t> place(std::size_t piece) const;

  /// Whether all pieces before it in its range have been handed over.
  [[nodiscard]] bool is_next(std::size_t piece) const;

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};

  struct Entry {
    std::size_t behind = kNone;  // the next one of its range
    std::optional<std::uint64_t> place{};
    std::optional<std::uint64_t> count{};
    bool has_ended = false;
    bool all_before_ended = false;
  };
  std::vector<Entry> entries_;
};

}  // namespace spmm::plan
