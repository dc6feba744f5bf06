// Block rows of C that are saturated nearly everywhere: which of their blocks are proven to be, by bounds of whole
// rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/run/run.hpp"
#include "verify/rows/saturated_rows.hpp"
#include "verify/rows/state.hpp"

namespace spmm {

/// Claims of rows of which more than half of all block columns are saturated everywhere, where bounds of whole rows are
/// expected to take less time than those of single blocks: on the device if there is one that is faster than the
/// host, else on the host. Memory: a bit for each block column of such a row.
class ProvenClaims {
 public:
  /// Shapes: rows by row. Errors: OutOfMemory, Interrupted, what the sources throw.
  ProvenClaims(const ProofState& state, std::span<const SaturatedRow> rows, const Run& run);

  /// Whether all sums of a block reach kMaxVal, for certain. Values: number = of the row in `rows`.
  [[nodiscard]] bool is_proven(std::size_t number, std::uint32_t col) const {
    const std::uint32_t at = at_[number];
    return at != kNone && (words_[at * words_per_row_ + col / 32] >> col % 32 & 1) != 0;
  }
  /// Whether that is so of every block column of C.
  [[nodiscard]] bool is_whole(std::size_t number) const;

  /// Blocks that were proven, and whether a device did it.
  [[nodiscard]] std::uint64_t num_blocks() const;
  [[nodiscard]] bool by_device() const { return by_device_; }
  [[nodiscard]] double seconds() const { return seconds_; }

 private:
  static constexpr std::uint32_t kNone = 0xFFFF'FFFFu;
  void claim(std::span<const SaturatedRow> rows, const Run& run);
  void prove(const ProofState& state, const Run& run);

  std::uint32_t blocks_per_side_;
  std::uint64_t words_per_row_;
  std::vector<std::uint32_t> at_;        // [rows] number of the row among those with claims
  std::vector<std::uint32_t> row_list_;  // block rows with claims
  std::vector<std::uint32_t> words_;     // [row_list, words_per_row]
  bool by_device_ = false;
  double seconds_ = 0;
};

}  // namespace spmm
