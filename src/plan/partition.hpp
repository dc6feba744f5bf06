// Out of core: into how many slabs the operands are cut. Pure functions.
#pragma once

#include "plan/execution.hpp"

namespace spmm::plan {

/// How the product of two slabs would run.
using DecideSlab = Execution (*)(const Statistics& slabs, const Limits& limits);

/// The division with the least predicted time in which the largest product of two slabs fits; refused where none does.
/// Values: several slabs of B keep the results of one slab of A until they are merged: half of the host's limit.
Execution decide_slabs(const Statistics& whole, const Limits& limits, DecideSlab decide_slab);

/// Host bytes of the lists of records that slabs need.
std::uint64_t slab_list_bytes(const MatrixHeader& a, const MatrixHeader& b);

/// Slabs end at the boundaries of so many buckets of block rows or columns.
inline constexpr std::uint32_t kNumBuckets = 1u << 16;

}  // namespace spmm::plan
