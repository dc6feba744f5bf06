// How long the CUDA kernels would take, from statistics and measured rates (device_rates.hpp). Pure functions; all
// return device milliseconds from parsing to packed records.
#pragma once

#include "plan/inputs/statistics.hpp"
#include "plan/models/device_rates.hpp"

namespace spmm::plan {

/// How a dense kernel cuts a product; zeros for other kernels.
struct DenseGroups {
  std::uint32_t panel_rows = 0;     ///< block rows of a panel
  std::uint32_t group_columns = 0;  ///< block columns of B that are expanded at a time
  std::uint32_t num_planes = 0;     ///< dense-tensor: byte planes of the operands
};

/// Device milliseconds from parsing to packed records.
using DeviceModel = double (*)(const Statistics&, const DenseGroups&, const DeviceRates&);

/// Rates of the first device, or of one that has not been seen.
const DeviceRates& rates_of(const Limits& limits);

double row_spread_ms(const Statistics& s, const DenseGroups& groups, const DeviceRates& rates);
double pair_list_ms(const Statistics& s, const DenseGroups& groups, const DeviceRates& rates);
/// Each panel takes the one of the two that suits it; judged for the product as a whole.
double rows_ms(const Statistics& s, const DenseGroups& groups, const DeviceRates& rates);
double small_blocks_ms(const Statistics& s, const DenseGroups& groups, const DeviceRates& rates);
double row_rank_ms(const Statistics& s, const DenseGroups& groups, const DeviceRates& rates);
double dense_tensor_ms(const Statistics& s, const DenseGroups& groups, const DeviceRates& rates);
double tile_tensor_ms(const Statistics& s, const DenseGroups& groups, const DeviceRates& rates);
double dense_tiled_ms(const Statistics& s, const DenseGroups& groups, const DeviceRates& rates);

/// The same where several devices share a product: each parses and sorts all of it.
double shared_ms(double ms_alone, const Statistics& s, const DeviceRates& rates, std::uint32_t num_devices);

/// Until operands are parsed and sorted, whatever kernel follows.
double build_ms(const Statistics& s, const DeviceRates& rates);

/// Whether warps sort all rows of small-blocks. Before pairs are counted: whether they would, if rows are about even.
bool sorts_rows(const Statistics& s);

/// Whether the longest row has not many times the pairs of others.
bool has_even_rows(const Statistics& s);

/// The tiles of tile-tensor. Exact statistics: as they are counted.
kernels::TileGrid tile_grid(const Statistics& s);

/// Whether a product of these statistics is listed as a whole rather than visited C block by C block.
bool is_listed(const Statistics& s, const DeviceRates& rates);

}  // namespace spmm::plan
