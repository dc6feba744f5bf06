// How long the CPU kernels would take, from statistics and measured rates. Pure functions; all return milliseconds of
// the multiply stage.
#pragma once

#include <cstdint>

#include "plan/inputs/statistics.hpp"

namespace spmm::plan {

/// Output buffers of row-merge. Larger ones have left the caches when they are used again; with smaller ones threads
/// wait for each other's older units. Multiply with 8, 4, 2 and 1 MB, two threads on a quiet machine: P3 87, 73, 94,
/// 114 ms, P5 221, 219, 243, 254, 27-point stencil, m = 8: 190, 200, 221, 283.
inline constexpr std::uint64_t kNearBufferBytes = 4u << 20;

/// Pairs of a row per block column from which row-merge visits all columns (cpu/rows/accumulator.hpp); infinite where
/// it never does.
double least_summed_pairs(Isa isa, std::uint32_t m);

/// Milliseconds of the multiply stage, with output buffers of this size.
using HostModel = double (*)(const Problem&, unsigned num_threads, std::uint64_t buffer_bytes);

double row_merge_ms(const Problem& p, unsigned num_threads, std::uint64_t buffer_bytes);
double reference_ms(const Problem& p, unsigned num_threads, std::uint64_t buffer_bytes);

/// C blocks, as well as they are known.
double likely_c_blocks(const Statistics& s);

/// How many times as fast as one thread this many are.
double parallel_speed(unsigned num_threads, const Limits& limits);

}  // namespace spmm::plan
