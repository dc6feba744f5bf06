// The rule that chooses a CUDA kernel. Test: tests/unit/plan/rule_test.cpp compares it with measured times.
#pragma once

#include <cstdint>
#include <string_view>

#include "kernels/tiles/grid.hpp"
#include "plan/choice.hpp"
#include "plan/registry.hpp"

namespace spmm::plan {

/// The kernel that is fastest, were there memory enough. Values: before tiles are counted, any but tile-tensor.
std::string_view fastest_kernel(const Counts& s, bool has_dense_tensor);

/// The work of a kernel between sorted operands and packed records: byte products that dense-tensor makes meanwhile.
double kernel_work(const KernelRow& kernel, const Counts& s);

/// Products of tiles that take tile-tensor as long as the kernel without it; 0 if its tiles are not worth counting.
std::uint64_t tile_stages_worth(const Counts& s);

/// A panel with fewer pairs than this for each of its C blocks is listed; in others every C block is visited.
double listed_pairs_per_block(std::uint32_t m);

/// Whether a product is listed as a whole.
bool is_listed(const Counts& s);

/// The tiles of tile-tensor. Exact counts: as they are counted.
kernels::TileGrid tile_grid(const Counts& s);

}  // namespace spmm::plan
