// What CUDA kernels reach on a GPU, as data: a row for each architecture. The planner predicts with them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "kernels/tuning.hpp"

namespace spmm::plan {

/// What the row kernels reach with blocks of one padded side, and when which of them is better.
struct SideRates {
  std::uint32_t side = 0;
  double gustavson_pairs_per_ms = 0;
  double esc_pairs_per_ms = 0;     ///< multiplied, without listing
  double esc_pairs_per_block = 0;  ///< a panel with fewer pairs than this per C block is listed; others are visited
  double ranked_pairs_per_ms = 0;  ///< row-rank; 0 = not compiled
};

/// Rates of one GPU. Fields are named for what they divide (..._per_ms) or add (..._ms).
struct DeviceRates {
  double launches_ms = 0;                    ///< launches and waits that every product has
  double build_bytes_per_ms = 0;             ///< raw records: parse, gather
  double build_blocks_per_ms = 0;            ///< sort, count
  double copy_bytes_per_ms = 0;              ///< whole blocks, read and written
  double plane_bytes_per_ms = 0;             ///< dense byte planes: clear and expand
  double gustavson_cta_ms = 0;               ///< a column chunk, however few its pairs
  double gustavson_elements_per_ms = 0;      ///< sums cleared and searched for non-zeros
  double gustavson_result_bytes_per_ms = 0;  ///< records from shared memory
  double gustavson_ctas = 0;                 ///< at a time: the longest row waits for few
  double esc_ms = 0;                         ///< launches and waits of listing a panel
  double esc_list_pairs_per_ms = 0;          ///< expand, sort, compress
  double esc_result_bytes_per_ms = 0;        ///< records
  double short_row_bytes_per_ms = 0;         ///< records of short rows that are multiplied while they are listed
  double small_hash_pairs_per_ms = 0;        ///< small-blocks: rows that a warp hashes
  double small_sort_pairs_per_ms = 0;        ///< rows that a warp sorts
  double small_sort_row_ms = 0;              ///< each of them in addition
  double small_sums_per_ms = 0;              ///< elements added up by CTAs in shared memory
  double small_unit_ms = 0;                  ///< a chunk of a row, while other CTAs have theirs
  double small_ranked_unit_ms = 0;           ///< a row that is ranked
  double small_uneven_unit_ms = 0;           ///< either where rows differ much (kSmallEvenRows)
  double rank_columns_per_ms = 0;            ///< row-rank: bits of a row, cleared and searched
  double rank_row_ms = 0;                    ///< a row, however few its pairs
  double rank_ms = 0;                        ///< a look at the operands, and a wait for what it finds
  double rank_panel_ms = 0;                  ///< launches of a panel
  double rank_result_bytes_per_ms = 0;       ///< columns found, sums cleared, records written
  double rank_zero_blocks_per_ms = 0;        ///< C blocks flagged and copied to their places, where some are zero
  double tensor_terms_per_ms = 0;            ///< byte multiply-adds of dense-tensor
  double tile_stage_ms = 0;                  ///< tile-tensor: two tiles multiplied, while others are
  double tile_far_stage_ms = 0;              ///< the same where B's tile comes from memory each time
  double tile_far_bytes = 0;                 ///< of B's tiles that a row of tiles meets: L2 keeps fewer
  double tile_list_ms = 0;                   ///< a C tile written
  double tile_bytes_per_ms = 0;              ///< tiles expanded
  double tile_count_ms = 0;                  ///< tiles counted and listed
  double tile_count_blocks_per_ms = 0;       ///< the same, per block
  double tiled_terms_per_ms = 0;             ///< multiply-adds of dense-tiled
  std::array<SideRates, std::size(kernels::kBlockSides)> sides{};

  /// The row of padded_side(m), m = 1 to 64.
  [[nodiscard]] const SideRates& of_side(std::uint32_t m) const;
};

/// An architecture: the board that its rates are of, and published figures of that board.
struct Architecture {
  int capability = 0;  ///< compute capability, 10 * major + minor
  std::string_view board{};
  bool is_measured = false;  ///< else the rates are those of the measured one, scaled by the figures below
  double multiprocessors = 0;
  double boost_ghz = 0;
  double memory_gb_per_s = 0;
};

/// The row for a device: its own, else the newest one before it, else the oldest.
const Architecture& architecture_of(int capability);

/// The rates of the measured board, scaled to another one: arithmetic by multiprocessors and clock, bytes by memory
/// bandwidth; launches take as long.
DeviceRates scaled_rates(const DeviceRates& measured, const Architecture& from, const Architecture& to);

/// Rates of architecture_of(capability); they live as long as the program.
const DeviceRates& device_rates(int capability);

}  // namespace spmm::plan
