// Which CUDA kernel a product takes: inequalities on block side, pairs, places of C blocks and rows. Pure functions.
#pragma once

#include <cstdint>

#include "plan/statistics.hpp"

namespace spmm::plan {

struct KernelRow;

/// The kernel that is fastest, were there memory enough: the last one of the registry that suits, or its first one.
/// Values: before tiles are counted, any but tile-tensor. Test: tests/unit/plan/rule_test.cpp compares it with
/// measured times.
const KernelRow& choose_kernel(const Statistics& s, bool has_dense_tensor);

/// Whether a kernel is faster than those in front of it in the registry.
bool suits_tile_tensor(const Statistics& s);
bool suits_dense_tensor(const Statistics& s);
bool suits_dense_tiled(const Statistics& s);
/// The sums of most rows fit a warp of small-blocks, or those of hardly any do: between, CTAs that write in order wait
/// for warps. Source: an H200, m = 2, 256 pairs a row: small-blocks 10.9 ms, row-rank 1.0.
bool suits_small_blocks(const Statistics& s);
/// Rows with more pairs than a CTA lists, most of whose places stay empty. If row-spread has to check its sums,
/// row-rank, which counts pairs instead, is also faster where places have many.
bool suits_row_rank(const Statistics& s);

/// Products of tiles that take tile-tensor as long as the kernel without it; 0 if its tiles are not worth counting.
std::uint64_t tile_stages_worth(const Statistics& s);

/// A panel with fewer pairs than this for each of its C blocks is listed; in others every C block is visited.
double listed_pairs_per_block(std::uint32_t m);

/// Whether a product is listed as a whole.
bool is_listed(const Statistics& s);

/// The share of its inner dimension that dense-tensor multiplies until all sums of a tile have reached the limit.
double share_before_saturation(const Statistics& s);

/// Byte products of dense-tensor.
double dense_byte_products(const Statistics& s);

/// The tiles of tile-tensor. Exact statistics: as they are counted.
kernels::TileGrid tile_grid(const Statistics& s);

}  // namespace spmm::plan
